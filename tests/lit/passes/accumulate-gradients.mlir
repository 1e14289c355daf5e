// RUN: cleave-opt %s --split-input-file --accumulate-gradients --canonicalize | FileCheck %s
// Gradients become sums over micro-batches, each term where it is made; so do the loss and its normalizer. The loss alone stays a result.

// CHECK-LABEL: func.func @twice(
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"})
// CHECK-SAME: cleave.output_tree = ["dict", "loss", 0]
// CHECK: %[[LOSS:.*]] = aten.sum(
// CHECK-NEXT: cleave.accumulate "loss" %[[LOSS]] : tensor<f32>
// CHECK: %[[FIRST:.*]] = aten.tanh(
// CHECK-NEXT: cleave.accumulate "grad.w" %[[FIRST]] {cleave.gradient} : tensor<8xf32>
// CHECK: %[[SECOND:.*]] = aten.sin(
// CHECK-NEXT: cleave.accumulate "grad.w" %[[SECOND]] {cleave.gradient} : tensor<8xf32>
// CHECK-NOT: aten.add.Tensor
// CHECK: cleave.accumulate "loss_normalizer" %arg1 : tensor<f32>
// CHECK: return %[[LOSS]] : tensor<f32>
func.func @twice(%x: tensor<8xf32> {cleave.name = "x"}, %count: tensor<f32> {cleave.name = "count"})
    -> (tensor<f32> {cleave.name = "loss", cleave.loss}, tensor<f32> {cleave.name = "loss_normalizer", cleave.loss_normalizer},
        tensor<8xf32> {cleave.name = "grad.w"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mul.Tensor(%x, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = aten.sum(%0, %none) : (tensor<8xf32>, none) -> tensor<f32>
  %2 = aten.tanh(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = aten.sin(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = aten.add.Tensor(%2, %3, %one) : (tensor<8xf32>, tensor<8xf32>, i64) -> tensor<8xf32>
  return %1, %count, %4 : tensor<f32>, tensor<f32>, tensor<8xf32>
}

// -----

// A sum with another factor is one term.
// CHECK-LABEL: func.func @scaled(
// CHECK: %[[SUM:.*]] = aten.add.Tensor(
// CHECK-NEXT: cleave.accumulate "grad.w" %[[SUM]] {cleave.gradient} : tensor<8xf32>
func.func @scaled(%x: tensor<f32> {cleave.name = "x"})
    -> (tensor<f32> {cleave.name = "loss", cleave.loss}, tensor<8xf32> {cleave.name = "grad.w"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %two = cleave.constant(2 : i64) : i64
  %0 = aten.tanh(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = aten.add.Tensor(%0, %w, %two) : (tensor<8xf32>, tensor<8xf32>, i64) -> tensor<8xf32>
  return %x, %1 : tensor<f32>, tensor<8xf32>
}
