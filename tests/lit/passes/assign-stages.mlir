// RUN: cleave-opt %s --split-input-file --assign-stages=stages=2 | FileCheck %s
// Operations are marked so that the slowest stage is fastest; what every stage makes for itself stays unmarked.

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>

// The account: seconds and received bytes a stage; a 64 x 256 tensor of f32 is sent.
// CHECK-LABEL: func.func @balanced(
// CHECK-SAME: cleave.cut = #cleave.cut<seconds = [{{[0-9.eE-]+, [0-9.eE-]+}}], recv_bytes = [0, 65536],
// CHECK-NOT: bottleneck
// CHECK: cleave.param
// CHECK-NOT: cleave.stage_index
// CHECK: cleave.constant
// CHECK-NOT: cleave.stage_index
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
func.func @balanced(%x: !x) -> !x {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %1 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x
  %2 = aten.linear(%1, %w, %none) : (!x, !w, none) -> !x
  %3 = aten.linear(%2, %w, %none) : (!x, !w, none) -> !x
  return %3 : !x
}

// -----

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>
// One operation that is slower than the mean makes balance impossible, and is named with its module.
// CHECK-LABEL: func.func @bottleneck(
// CHECK-SAME: bottleneck = "aten.linear at lm_head"
func.func @bottleneck(%x: !x) -> tensor<64x8192xf32> {
  %w = cleave.param "w" {role = "parameter"} : !w
  %head = cleave.param "head" {role = "parameter"} : tensor<8192x256xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %1 = aten.linear(%0, %head, %none) : (!x, tensor<8192x256xf32>, none) -> tensor<64x8192xf32> loc("lm_head")
  return %1 : tensor<64x8192xf32>
}

// Costs are counted at the traced sizes of named dimensions: here the second half is the heavier one.
!short = tensor<?x256xf32, #cleave.layout<dims = ["short", "256"]>>
!long = tensor<?x256xf32, #cleave.layout<dims = ["long", "256"]>>

// -----

!w = tensor<256x256xf32>
!short = tensor<?x256xf32, #cleave.layout<dims = ["short", "256"]>>
!long = tensor<?x256xf32, #cleave.layout<dims = ["long", "256"]>>
// CHECK-LABEL: func.func @named_dimensions(
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
func.func @named_dimensions(%x: !short, %y: !long) -> (!short, !long)
    attributes {cleave.symbols = {short = 8, long = 512}} {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (!short, !w, none) -> !short
  %1 = aten.linear(%0, %w, %none) : (!short, !w, none) -> !short
  %2 = aten.linear(%1, %w, %none) : (!short, !w, none) -> !short
  %3 = aten.linear(%y, %w, %none) : (!long, !w, none) -> !long
  return %2, %3 : !short, !long
}

// -----

!w = tensor<256x256xf32>
// A mask that takes no time to make, here from a small buffer, is made in both stages and not sent.
// CHECK-LABEL: func.func @cheap_producers(
// CHECK-SAME: recv_bytes = [0, 1048576]
// CHECK: cleave.param "row"
// CHECK-NOT: cleave.stage_index
// CHECK: aten.lt.Tensor
// CHECK-NOT: cleave.stage_index
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.mul.Tensor({{.*}}) {cleave.stage_index
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.mul.Tensor({{.*}}) {cleave.stage_index = 1 : i64}
func.func @cheap_producers(%x: tensor<1024x256xf32>) -> tensor<1024x256xf32> {
  %w = cleave.param "w" {role = "parameter"} : !w
  %row = cleave.param "row" {role = "buffer"} : tensor<256xf32>
  %none = cleave.constant(unit) : none
  %mask = aten.lt.Tensor(%row, %row) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xi1>
  %0 = aten.linear(%x, %w, %none) : (tensor<1024x256xf32>, !w, none) -> tensor<1024x256xf32>
  %1 = aten.mul.Tensor(%0, %mask) : (tensor<1024x256xf32>, tensor<256xi1>) -> tensor<1024x256xf32>
  %2 = aten.linear(%1, %w, %none) : (tensor<1024x256xf32>, !w, none) -> tensor<1024x256xf32>
  %3 = aten.mul.Tensor(%2, %mask) : (tensor<1024x256xf32>, tensor<256xi1>) -> tensor<1024x256xf32>
  return %3 : tensor<1024x256xf32>
}

// -----

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>
// A list does not travel: what makes it and what takes it apart are in one stage with all between, though two linears a
// stage would be faster.
// CHECK-LABEL: func.func @lists_stay(
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.split.Tensor({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK-COUNT-3: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: cleave.unpack {{.*}} {cleave.stage_index = 1 : i64}
func.func @lists_stay(%x: !x) -> (tensor<32x256xf32>, tensor<32x256xf32>, !x) {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %half = cleave.constant(32 : i64) : i64
  %dim = cleave.constant(0 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %list = aten.split.Tensor(%0, %half, %dim) : (!x, i64, i64) -> !cleave.list<!cleave.tensor>
  %1 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x
  %2 = aten.linear(%1, %w, %none) : (!x, !w, none) -> !x
  %3 = aten.linear(%2, %w, %none) : (!x, !w, none) -> !x
  %items:2 = cleave.unpack %list : (!cleave.list<!cleave.tensor>) -> (tensor<32x256xf32>, tensor<32x256xf32>)
  return %items#0, %items#1, %3 : tensor<32x256xf32>, tensor<32x256xf32>, !x
}

// -----

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>
// Nor does a list that is appended to, and no stage makes it again for itself.
// CHECK-LABEL: func.func @changed_lists_stay(
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: cleave.list() {cleave.stage_index = 1 : i64}
// CHECK: aten.append.t({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK-COUNT-3: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.stack({{.*}}) {cleave.stage_index = 1 : i64}
func.func @changed_lists_stay(%x: !x) -> !cleave.tensor {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %dim = cleave.constant(0 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %list = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %same = aten.append.t(%list, %0) : (!cleave.list<!cleave.tensor>, !x) -> !cleave.list<!cleave.tensor>
  %1 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x
  %2 = aten.linear(%1, %w, %none) : (!x, !w, none) -> !x
  %3 = aten.linear(%2, %w, %none) : (!x, !w, none) -> !x
  %again = aten.append.t(%list, %3) : (!cleave.list<!cleave.tensor>, !x) -> !cleave.list<!cleave.tensor>
  %stack = aten.stack(%list, %dim) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  return %stack : !cleave.tensor
}

// -----

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>
// Control flow is one operation: its regions are in its stage.
// CHECK-LABEL: func.func @control_flow(
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: cleave.if %{{.*}} : tensor<64x256xf32> attributes {cleave.stage_index = 1 : i64} {
// CHECK-NOT: cleave.stage_index
// CHECK: } else {
// CHECK-NOT: cleave.stage_index
// CHECK: return
func.func @control_flow(%x: !x, %c: i1) -> !x {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %1 = cleave.if %c : !x {
    %2 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x
    cleave.yield %2 : !x
  } else {
    cleave.yield %0 : !x
  }
  return %1 : !x
}
