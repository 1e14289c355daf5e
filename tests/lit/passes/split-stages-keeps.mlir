// RUN: cleave-opt %s --split-stages | FileCheck %s
// Does nothing when no operation has a stage.

// CHECK-LABEL: func.func @forward(
// CHECK-NOT: cleave.stage
// CHECK: aten.relu
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
