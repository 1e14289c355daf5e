// RUN: cleave-opt %s --infer-types | FileCheck %s
// Does nothing when only data decides a type, or when it is known.

// CHECK-LABEL: func.func @data(
// CHECK-SAME: -> !cleave.tensor
// CHECK: aten.nonzero({{.*}}) : (tensor<4xf32>) -> !cleave.tensor
func.func @data(%x: tensor<4xf32>) -> !cleave.tensor {
  %0 = aten.nonzero(%x) : (tensor<4xf32>) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// Branches that differ leave it open.
// CHECK-LABEL: func.func @branches(
// CHECK: cleave.if {{.*}} : !cleave.tensor
func.func @branches(%x: tensor<2xf32>, %y: tensor<3xf32>, %c: i1) -> !cleave.tensor {
  %0 = cleave.if %c : !cleave.tensor {
    %1 = aten.relu(%x) : (tensor<2xf32>) -> !cleave.tensor
    cleave.yield %1 : !cleave.tensor
  } else {
    %1 = aten.relu(%y) : (tensor<3xf32>) -> !cleave.tensor
    cleave.yield %1 : !cleave.tensor
  }
  return %0 : !cleave.tensor
}

// An optional tensor keeps saying that it may be absent.
// CHECK-LABEL: func.func @optional(
// CHECK: -> !cleave.optional<!cleave.tensor>
func.func @optional(%x: tensor<2xf32>) -> !cleave.optional<!cleave.tensor> {
  %0 = cleave.boundary %x "m" output 0 : (tensor<2xf32>) -> !cleave.optional<!cleave.tensor>
  return %0 : !cleave.optional<!cleave.tensor>
}

// What the operator throws at the traced sizes it shall throw when it runs.
// CHECK-LABEL: func.func @throws(
// CHECK: aten.view({{.*}} -> !cleave.tensor
func.func @throws(%x: tensor<5xf32>) -> !cleave.tensor {
  %sizes = cleave.constant([2, 2]) : !cleave.list<i64>
  %0 = aten.view(%x, %sizes) : (tensor<5xf32>, !cleave.list<i64>) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// CHECK-LABEL: func.func @known(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: %[[Y:.*]] = aten.relu(%[[X]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: return %[[Y]] : tensor<2xf32>
func.func @known(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
