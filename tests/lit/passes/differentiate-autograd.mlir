// RUN: cleave-opt %s --split-input-file --differentiate | FileCheck %s

// From the first value whose type depends on data on, all runs under PyTorch's autograd, and gives the loss.
// CHECK-LABEL: func.func @data
// CHECK: %[[W:.*]] = cleave.param "w"
// CHECK: %[[ONE:.*]] = aten.scalar_tensor
// CHECK: %[[RESULTS:.*]]:2 = cleave.vjp(%[[ONE]]) at(%[[W]], %arg1) {reason = "aten.masked_select: {{.*}}"} : (tensor<f32>) at(tensor<4xf32>, tensor<4xi1>) -> (tensor<4xf32>, tensor<f32>) {
// CHECK: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xi1>):
// CHECK: aten.masked_select(%[[A]], %[[B]])
// CHECK: return %[[RESULTS]]#1, %[[RESULTS]]#0
func.func @data(%x: tensor<4xf32>, %mask: tensor<4xi1>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.masked_select(%w, %mask) : (tensor<4xf32>, tensor<4xi1>) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// A branch in the middle runs again; the weight inside becomes an input.
// CHECK-LABEL: func.func @branch
// CHECK: %[[W:.*]] = cleave.param "w"
// CHECK: cleave.if
// CHECK: %[[GRAD:.*]] = aten.expand
// CHECK: %[[RESULTS:.*]]:2 = cleave.vjp(%[[GRAD]]) at(%[[W]], %arg1, %arg0) {reason = "control flow"}
// CHECK: cleave.if
// CHECK: return %{{.*}}, %[[RESULTS]]#0
func.func @branch(%x: tensor<4xf32>, %c: i1) -> (!cleave.tensor {cleave.name = "loss"}) {
  %none = cleave.constant(unit) : none
  %0 = cleave.if %c : tensor<4xf32> {
    %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
    %1 = aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %1 : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  %2 = aten.sum(%0, %none) : (tensor<4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
