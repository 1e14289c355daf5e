// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(differentiate{for-optimizer=true},canonicalize,cse,infer-types,accumulate-gradients,canonicalize,cse,infer-types),assign-stages{stages=2 machine=cpu:2},func.func(add-optimizer{clip-norm=1},infer-types,split-stages))' | FileCheck %s
// A training step over two stages that share the weight "tied". Each adds its term of the gradient, and updates its copy with states of
// its own; its norm counts in stage 0. Both read the loss and the squared norms of both.

// CHECK-LABEL: func.func @step(
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<f32> {cleave.name = "grad_norm"})
// CHECK: cleave.stage 0(%arg0)
// CHECK: cleave.stage 1(%{{.*}})
// CHECK: cleave.accumulate "loss"
// CHECK: {phase = #cleave.phase<backward_input>}
// CHECK: {phase = #cleave.phase<backward_input>}
// CHECK: cleave.stage 0({{.*}}) {phase = #cleave.phase<backward_weight>}
// CHECK: cleave.accumulate "grad.b"
// CHECK: cleave.accumulate "grad.tied"
// CHECK: cleave.stage 1({{.*}}) {phase = #cleave.phase<backward_weight>}
// CHECK: cleave.accumulate "grad.tied"

// CHECK: cleave.stage 0() {phase = #cleave.phase<norm>}
// CHECK: cleave.read_sum "grad.tied"
// CHECK: cleave.read_sum "grad.b"
// CHECK: %[[SQUARE:.*]] = aten.mul.Tensor({{.*}}) : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK: cleave.accumulate "grad_norm_squares" %[[SQUARE]]
// CHECK-NOT: phase = #cleave.phase<norm>

// CHECK: cleave.stage 0({{.*}}) {phase = #cleave.phase<update>}
// CHECK-DAG: %[[TIED:.*]] = cleave.read_sum "grad.tied"
// CHECK-DAG: %[[B:.*]] = cleave.read_sum "grad.b"
// CHECK: cleave.read_sum "grad_norm_squares"
// CHECK: cleave.read_sum "loss"
// CHECK: cleave.update_weight(%{{.*}}, %[[TIED]], {{.*}} states = ["tied.exp_avg", "tied.exp_avg_sq"]
// CHECK: cleave.update_weight(%{{.*}}, %[[B]],
// CHECK: %[[LAST:.*]] = cleave.stage 1({{.*}}) {phase = #cleave.phase<update>}
// CHECK: cleave.read_sum "grad_norm_squares"
// CHECK: cleave.update_weight({{.*}} states = ["tied.exp_avg@1", "tied.exp_avg_sq@1"]
// CHECK: return %{{.*}}#0, %[[LAST]]
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
