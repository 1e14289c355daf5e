// RUN: cleave-opt %s --split-input-file --accumulate-gradients --add-optimizer="clip-norm=2" --infer-types --canonicalize --cse | FileCheck %s
// RUN: cleave-opt %s --split-input-file --accumulate-gradients --add-optimizer --infer-types | FileCheck %s --check-prefix=PLAIN
// Where micro-batches accumulate, the loss is that of the batch, read in the update; it, the norm and the gradients are divided by
// the sum of the normalizers.

// CHECK-LABEL: func.func @mean(
// CHECK-DAG: cleave.accumulate "loss"
// CHECK-DAG: cleave.accumulate "loss_normalizer" %arg1
// CHECK-DAG: %[[NORMALIZER:.*]] = cleave.read_sum "loss_normalizer"
// CHECK: %[[NORM:.*]] = aten.div.Tensor(%{{.*}}, %[[NORMALIZER]]) {cleave.phase = #cleave.phase<update>}
// CHECK: %[[SUM:.*]] = cleave.read_sum "loss"
// CHECK: %[[LOSS:.*]] = aten.div.Tensor(%[[SUM]], %[[NORMALIZER]])
// CHECK: aten.add.Scalar(%[[NORM]]
// CHECK: %[[EXCESS:.*]] = aten.clamp_min
// CHECK: %[[DIVISOR:.*]] = aten.mul.Tensor(%[[EXCESS]], %[[NORMALIZER]])
// CHECK: cleave.update_weight(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[DIVISOR]], %{{.*}})
// CHECK: return %[[LOSS]], %[[NORM]]

// PLAIN-LABEL: func.func @mean(
// PLAIN: %[[NORMALIZER:.*]] = cleave.read_sum "loss_normalizer"
// PLAIN: cleave.update_weight(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[NORMALIZER]], %{{.*}})
func.func @mean(%x: tensor<4x8xf32> {cleave.name = "x"}, %count: tensor<f32> {cleave.name = "count"})
    -> (tensor<f32> {cleave.name = "loss", cleave.loss}, tensor<f32> {cleave.name = "loss_normalizer", cleave.loss_normalizer},
        tensor<8xf32> {cleave.name = "grad.w"})
    attributes {cleave.split_batch = "batch"} {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = aten.sum(%0, %none) : (tensor<4x8xf32>, none) -> tensor<f32>
  %2 = aten.mul.Tensor(%w, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1, %count, %2 : tensor<f32>, tensor<f32>, tensor<8xf32>
}

// -----

// A sum is not divided.
// CHECK-LABEL: func.func @sum(
// CHECK-NOT: loss_normalizer
// CHECK: %[[LOSS:.*]] = cleave.read_sum "loss"
// CHECK: return %[[LOSS]]
func.func @sum(%x: tensor<4x8xf32> {cleave.name = "x"})
    -> (tensor<f32> {cleave.name = "loss", cleave.loss}, tensor<8xf32> {cleave.name = "grad.w"})
    attributes {cleave.split_batch = "batch"} {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = aten.sum(%0, %none) : (tensor<4x8xf32>, none) -> tensor<f32>
  %2 = aten.mul.Tensor(%w, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<f32>, tensor<8xf32>
}
