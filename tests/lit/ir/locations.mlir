// RUN: cleave-opt %s --mlir-print-debuginfo | cleave-opt --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// Operations keep their module path, which is their location.

// CHECK-LABEL: func.func @paths(
func.func @paths(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: aten.relu(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32> loc("transformer.h.3.mlp.act")
  %0 = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("transformer.h.3.mlp.act")
  // The second call of a shared module.
  // CHECK: cleave.boundary {{.*}} loc("decoder.layer#1")
  %1 = cleave.boundary %0 "decoder.layer#1" output 0 : (tensor<4xf32>) -> tensor<4xf32> loc("decoder.layer#1")
  // CHECK: aten.tanh{{.*}} loc("head"("model.py":7:3))
  %2 = aten.tanh(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("head"("model.py":7:3))
  return %2 : tensor<4xf32>
}
