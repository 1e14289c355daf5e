// RUN: cleave-opt %s --assign-stages | FileCheck %s
// Does nothing but number them when there is one stage, whose time is all there is and which receives nothing.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: cleave.stage_recv_bytes = [0]
// CHECK: aten.relu({{.*}}) {cleave.stage = 0 : i64}
// CHECK: aten.tanh({{.*}}) {cleave.stage = 0 : i64}
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
