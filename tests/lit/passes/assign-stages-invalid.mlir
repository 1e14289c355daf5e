// RUN: cleave-opt %s --assign-stages='stages=2 stage-before=transformer.g.1' --split-input-file --verify-diagnostics
// A path that no module has is answered by the nearest one.

// expected-error @below {{--stage-before transformer.g.1: no module of this path does work; did you mean transformer.h.1?}}
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("transformer.h.0.act")
  %1 = aten.tanh(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("transformer.h.1.act")
  return %1 : tensor<2xf32>
}
