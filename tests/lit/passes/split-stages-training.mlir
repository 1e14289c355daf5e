// RUN: cleave-opt %s --split-stages | FileCheck %s
// Each phase of a stage becomes a cleave.stage of its own: forward in the order of the stages, backward in the opposite one. What
// a later phase needs of the forward pass is a further result of that; gradients go to earlier stages.

// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[X:.*]]: tensor<2x2xf32>, %[[T:.*]]: tensor<2x2xf32>)
// CHECK: %[[F0:.*]] = cleave.stage 0(%[[X]]) :
// CHECK:   aten.mm
// CHECK:   cleave.yield
// CHECK: %[[F1:.*]]:2 = cleave.stage 1(%[[F0]], %[[T]]) :
// CHECK:   aten.sub.Tensor
// CHECK:   aten.sum
// CHECK: %[[B1:.*]] = cleave.stage 1(%[[F1]]#0) {phase = #cleave.phase<backward_input>}
// CHECK: %[[B0:.*]] = cleave.stage 0(%[[B1]], %[[F0]]) {phase = #cleave.phase<backward_input>}
// CHECK:   aten.threshold_backward
// CHECK: cleave.stage 0(%[[X]], %[[B0]]) {phase = #cleave.phase<backward_weight>}
// CHECK:   cleave.accumulate "grad.w"
// CHECK: cleave.stage 0() {phase = #cleave.phase<update>}
// CHECK:   cleave.read_sum "grad.w"
// CHECK:   %[[W:.*]] = cleave.param "w"
// CHECK:   cleave.write_weight %[[W]],
// CHECK: return %[[F1]]#1
func.func @train(%x: tensor<2x2xf32>, %t: tensor<2x2xf32>) -> tensor<f32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<2x2xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %y = aten.mm(%x, %w) {cleave.stage_index = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %e = aten.sub.Tensor(%y, %t, %one) {cleave.stage_index = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>, i64) -> tensor<2x2xf32>
  %loss = aten.sum(%e, %none) {cleave.stage_index = 1 : i64} : (tensor<2x2xf32>, none) -> tensor<f32>
  %g = aten.mul.Tensor(%e, %e) {cleave.stage_index = 1 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %h = aten.threshold_backward(%g, %y, %zero) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2x2xf32>, tensor<2x2xf32>, i64) -> tensor<2x2xf32>
  %dw = aten.mm(%x, %h) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_weight>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  cleave.accumulate "grad.w" %dw {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_weight>} : tensor<2x2xf32>
  %sum = cleave.read_sum "grad.w" {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<update>} : tensor<2x2xf32>
  %new = aten.sub.Tensor(%w, %sum, %one) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<update>} : (tensor<2x2xf32>, tensor<2x2xf32>, i64) -> tensor<2x2xf32>
  cleave.write_weight %w, %new {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<update>} : tensor<2x2xf32>, tensor<2x2xf32>
  return %loss : tensor<f32>
}

// A value of an earlier stage that a later one needs in its backward pass comes by its forward program.
// CHECK-LABEL: func.func @through(
// CHECK: %[[F0:.*]] = cleave.stage 0(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: %[[F1:.*]] = cleave.stage 1(%[[F0]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: %[[B1:.*]] = cleave.stage 1(%[[F1]]) {phase = #cleave.phase<backward_input>}
// CHECK: return %[[B1]]
func.func @through(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %g = aten.relu(%y) {cleave.stage_index = 1 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2xf32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}
