// RUN: cleave-opt %s --cse | FileCheck %s
// Equal calls of pure operators are one call, and a weight is read once.

// CHECK-LABEL: func.func @equal(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[W:.*]] = cleave.param "w"
// CHECK-NEXT: %[[Y:.*]] = aten.mul.Tensor(%[[X]], %[[W]])
// CHECK-NEXT: return %[[Y]], %[[Y]]
func.func @equal(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %w0 = cleave.param "w" {role = "parameter"} : tensor<2xf32>
  %w1 = cleave.param "w" {role = "parameter"} : tensor<2xf32>
  %0 = aten.mul.Tensor(%x, %w0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.mul.Tensor(%x, %w1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// A region sees what was computed before it.
// CHECK-LABEL: func.func @into_regions(
// CHECK: %[[Y:.*]] = aten.relu
// CHECK-NOT: aten.relu
// CHECK: cleave.yield %[[Y]]
func.func @into_regions(%x: tensor<2xf32>, %c: i1) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.if %c : tensor<2xf32> {
    %2 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %2 : tensor<2xf32>
  } else {
    cleave.yield %x : tensor<2xf32>
  }
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
