// RUN: cleave-opt %s --accumulate-gradients --add-optimizer="optimizer='adamw(weight_decay=0.1, beta2=0.95)' no-decay=b clip-norm=2" --infer-types --canonicalize --cse | FileCheck %s
// RUN: cleave-opt %s --accumulate-gradients --add-optimizer="optimizer='sgd(momentum=0.9, nesterov=true)' clip-norm=2" | FileCheck %s --check-prefix=SGD
// RUN: cleave-opt %s --accumulate-gradients --add-optimizer="optimizer=sgd" --infer-types | FileCheck %s --check-prefix=PLAIN
// RUN: cleave-opt %s --accumulate-gradients --assign-stages --add-optimizer --infer-types --split-stages | FileCheck %s --check-prefix=SPLIT
// A step adds gradients where they are made, and changes the weights in the update. Outputs other than the loss go.

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[RATE:[^:]*]]: tensor<f32> {cleave.name = "learning_rate", cleave.role = "learning_rate"}
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<f32> {cleave.name = "step", cleave.role = "step"}
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<f32> {cleave.name = "grad_norm"})
// CHECK-SAME: cleave.input_tree = ["dict", "inputs", ["dict", "inputs", ["tuple", 0], "learning_rate", 1], "step", 2]
// CHECK-SAME: cleave.output_tree = ["dict", "loss", 0, "grad_norm", 1]
// CHECK-DAG: %[[W:.*]] = cleave.param "w" {cleave.trained
// CHECK-DAG: %[[B:.*]] = cleave.param "b" {cleave.trained
// CHECK: %[[LOSS:.*]] = aten.sum(
// CHECK: %[[DW:.*]] = aten.mul.Tensor
// CHECK-NEXT: cleave.accumulate "grad.w" %[[DW]]
// CHECK: cleave.accumulate "grad.b"
// CHECK-DAG: %[[GW:.*]] = cleave.read_sum "grad.w" {cleave.phase = #cleave.phase<update>}
// CHECK-DAG: %[[GB:.*]] = cleave.read_sum "grad.b" {cleave.phase = #cleave.phase<update>}
// CHECK: %[[NORMS:.*]] = aten.stack(
// CHECK: %[[NORM:.*]] = aten.linalg_vector_norm(%[[NORMS]]
// CHECK: %[[DIVISOR:.*]] = aten.clamp_min
// CHECK: aten.isfinite(%[[NORM]])
// CHECK: %[[SKIP:.*]] = aten.to.dtype
// CHECK: cleave.update_weight(%[[W]], %[[GW]], %[[RATE]], %[[STEP]], %[[DIVISOR]], %[[SKIP]])
// CHECK-SAME: beta1 = 9.000000e-01
// CHECK-SAME: beta2 = 0.94999999999999996
// CHECK-SAME: optimizer = #cleave.optimizer<adamw>, states = ["w.exp_avg", "w.exp_avg_sq"], weight_decay = 1.000000e-01
// CHECK: cleave.update_weight(%[[B]], %[[GB]]
// CHECK-SAME: states = ["b.exp_avg", "b.exp_avg_sq"]}
// CHECK: return %[[LOSS]], %[[NORM]]

// SGD: cleave.update_weight
// SGD-SAME: momentum = 9.000000e-01 : f64, nesterov, optimizer = #cleave.optimizer<sgd>, states = ["w.momentum_buffer"]

// PLAIN-NOT: aten.clamp_min
// PLAIN: %[[NONE:.*]] = cleave.constant(unit)
// PLAIN: cleave.update_weight(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {cleave.phase = #cleave.phase<update>, optimizer = #cleave.optimizer<sgd>, states = []}

// The update is a program of its own, behind the stage's forward and backward passes.
// SPLIT: %[[STAGE:.*]] = cleave.stage 0(%{{.*}}) : (tensor<4x8xf32>) -> tensor<f32>
// SPLIT: cleave.accumulate
// SPLIT: cleave.stage 0(%{{.*}}, %{{.*}}) {phase = #cleave.phase<update>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// SPLIT: cleave.read_sum
func.func @step(%x: tensor<4x8xf32> {cleave.name = "x"})
    -> (tensor<4x8xf32> {cleave.name = "logits"}, tensor<f32> {cleave.name = "loss", cleave.loss},
        tensor<8xf32> {cleave.name = "grad.w"}, tensor<8xf32> {cleave.name = "grad.b"})
    attributes {cleave.input_tree = ["tuple", 0], cleave.output_tree = ["tuple", 0, 1, 2, 3]} {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = aten.add.Tensor(%0, %b, %one) : (tensor<4x8xf32>, tensor<8xf32>, i64) -> tensor<4x8xf32>
  %2 = aten.sum(%1, %none) : (tensor<4x8xf32>, none) -> tensor<f32>
  %3 = aten.mul.Tensor(%w, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = aten.mul.Tensor(%b, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1, %2, %3, %4 : tensor<4x8xf32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>
}
