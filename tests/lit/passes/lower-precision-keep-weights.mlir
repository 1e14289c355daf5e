// RUN: cleave-opt %s --split-input-file --lower-precision=keep-weights=true --canonicalize --cse | FileCheck %s
// Weights stay in float32. A cast stands behind each that a product uses, one for all products; lookups take the weight itself.

// CHECK-LABEL: func.func @tied(
// CHECK-SAME: cleave.precision = "bf16"
// CHECK: %[[W:.*]] = cleave.param "wte.weight" {{.*}} : tensor<16x8xf32>
// CHECK: %[[NARROW:.*]] = aten.to.dtype(%[[W]], {{.*}} -> tensor<16x8xbf16>
// CHECK-NOT: aten.to.dtype(%[[W]]
// CHECK: %[[ROWS:.*]] = aten.embedding(%[[W]], {{.*}} -> tensor<4x8xf32>
// CHECK: %[[X:.*]] = aten.to.dtype(%[[ROWS]], {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[SIDE:.*]] = aten.t(%[[NARROW]]) {{.*}} -> tensor<8x16xbf16
// CHECK: aten.mm(%[[X]], %[[SIDE]]) {{.*}} -> tensor<4x16xbf16>
// CHECK: aten.linear(%[[X]], %[[NARROW]], {{.*}} -> tensor<4x16xbf16>
// CHECK: aten.relu(%[[W]])
func.func @tied(%ids: tensor<4xi64>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<16x8xf32>) {
  %w = cleave.param "wte.weight" {role = "parameter"} : tensor<16x8xf32>
  %padding = cleave.constant(-1 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %h = aten.embedding(%w, %ids, %padding, %false, %false) : (tensor<16x8xf32>, tensor<4xi64>, i64, i1, i1) -> tensor<4x8xf32>
  %t = aten.t(%w) : (tensor<16x8xf32>) -> tensor<8x16xf32, #cleave.layout<dims = [], strides = ["1", "8"]>>
  %x = aten.mm(%h, %t) : (tensor<4x8xf32>, tensor<8x16xf32, #cleave.layout<dims = [], strides = ["1", "8"]>>) -> tensor<4x16xf32>
  %y = aten.linear(%h, %w, %none) : (tensor<4x8xf32>, tensor<16x8xf32>, none) -> tensor<4x16xf32>
  %z = aten.relu(%w) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %x, %y, %z : tensor<4x16xf32>, tensor<4x16xf32>, tensor<16x8xf32>
}

// -----

// A weight that no product uses is not cast.
// CHECK-LABEL: func.func @scale(
// CHECK-NOT: aten.to.dtype
// CHECK-NOT: bf16
func.func @scale(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = cleave.param "norm.weight" {role = "parameter"} : tensor<8xf32>
  %y = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
