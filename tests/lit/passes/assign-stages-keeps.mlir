// RUN: cleave-opt %s --split-input-file --assign-stages | FileCheck %s
// Does nothing but number them when there is one stage, whose time is all there is and which receives nothing.

// Nothing is left of another cut, which the text may say.
// CHECK-LABEL: func.func @cut_before(
// CHECK-NOT: bottleneck
// CHECK: cleave.constant(unit) : none
// CHECK: return
func.func @cut_before(%x: tensor<2xf32>) -> (tensor<2xf32>, none) attributes {cleave.cut = #cleave.cut<seconds = [1.0, 1.0], recv_bytes = [0, 7], bottleneck = "aten.relu">} {
  %none = cleave.constant(unit) {cleave.stage_index = 7 : i64} : none
  %0 = aten.relu(%x) {cleave.stage_index = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %none : tensor<2xf32>, none
}

// -----

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: recv_bytes = [0],
// CHECK: aten.relu({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.tanh({{.*}}) {cleave.stage_index = 0 : i64}
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
