// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(differentiate{for-optimizer=true},canonicalize,cse,infer-types,accumulate-gradients,canonicalize,cse,infer-types),assign-stages{stages=2 machine=cpu:2},func.func(add-optimizer{clip-norm=1},infer-types,split-stages))' | FileCheck %s
// A training step over two stages that share the weight "tied". Each adds its term of the gradient, and updates its copy with states of
// its own; its norm counts in stage 0. Both read the loss and the squared norms of both.
func.func @step(%x: tensor<64x64xf32> {cleave.name = "x"}) -> (!cleave.tensor {cleave.name = "loss"})
    attributes {cleave.input_tree = ["tuple", 0], cleave.output_tree = ["tuple", 0]} {
  %a = cleave.param "tied" {role = "parameter"} : tensor<64x64xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<64x64xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %a, %none) : (tensor<64x64xf32>, tensor<64x64xf32>, none) -> !cleave.tensor loc("a")
  %1 = aten.tanh(%0) : (!cleave.tensor) -> !cleave.tensor loc("tanh")
  %2 = aten.linear(%1, %b, %none) : (!cleave.tensor, tensor<64x64xf32>, none) -> !cleave.tensor loc("b")
  %3 = aten.tanh(%2) : (!cleave.tensor) -> !cleave.tensor loc("last")
  %4 = aten.linear(%3, %a, %none) : (!cleave.tensor, tensor<64x64xf32>, none) -> !cleave.tensor loc("c")
  %5 = aten.sum(%4, %none) : (!cleave.tensor, none) -> !cleave.tensor loc("loss")
  return %5 : !cleave.tensor
}
