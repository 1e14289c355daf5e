// RUN: cleave-opt %s --split-input-file --lower-precision --canonicalize --cse | FileCheck %s
// Products take and give bfloat16, and weights that they use are stored so.

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>) -> tensor<4x16xf32>
// CHECK-SAME: cleave.precision = "bf16"
// CHECK-DAG: %[[W:.*]] = cleave.param "fc.weight" {{.*}} : tensor<16x8xbf16>
// CHECK-DAG: %[[B:.*]] = cleave.param "fc.bias" {{.*}} : tensor<16xbf16>
// CHECK-DAG: %[[NARROW:.*]] = aten.to.dtype(%[[X]], {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[Y:.*]] = aten.linear(%[[NARROW]], %[[W]], %[[B]]) {{.*}} -> tensor<4x16xbf16>
// CHECK: %[[WIDE:.*]] = aten.to.dtype(%[[Y]], {{.*}} -> tensor<4x16xf32>
// CHECK: return %[[WIDE]]
func.func @linear(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %w = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xf32>
  %b = cleave.param "fc.bias" {role = "parameter"} : tensor<16xf32>
  %y = aten.linear(%x, %w, %b) : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// Views between two products need no casts.
// CHECK-LABEL: func.func @views(
// CHECK: %[[A:.*]] = aten.mm({{.*}} -> tensor<4x8xbf16>
// CHECK-NOT: aten.to
// CHECK: aten.split.Tensor(%[[A]], {{.*}} -> !cleave.list<tensor<4x4xbf16>>
// CHECK: aten.t({{.*}} -> tensor<4x4xbf16
// CHECK: aten.mm({{.*}} -> tensor<4x4xbf16>
// CHECK: aten.to.dtype
func.func @views(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<8x8xf32>
  %four = cleave.constant(4 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = aten.split.Tensor(%0, %four, %one) : (tensor<4x8xf32>, i64, i64) -> !cleave.list<tensor<4x4xf32>>
  %2, %3 = cleave.unpack %1 : (!cleave.list<tensor<4x4xf32>>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %4 = aten.t(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32, #cleave.layout<dims = [], strides = ["1", "4"]>>
  %5 = aten.mm(%2, %4) : (tensor<4x4xf32>, tensor<4x4xf32, #cleave.layout<dims = [], strides = ["1", "4"]>>) -> tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}

// -----

// A lookup takes its rows before they are cast; who else uses the weight gets it cast.
// CHECK-LABEL: func.func @tied(
// CHECK: %[[W:.*]] = cleave.param "wte.weight" {{.*}} : tensor<16x8xbf16>
// CHECK: %[[ALL:.*]] = aten.to.dtype(%[[W]], {{.*}} -> tensor<16x8xf32>
// CHECK: %[[ROWS:.*]] = aten.embedding(%[[W]], {{.*}} -> tensor<4x8xbf16>
// CHECK: aten.linear(%[[ROWS]], %[[W]], {{.*}} -> tensor<4x16xbf16>
// CHECK: aten.relu(%[[ALL]])
func.func @tied(%ids: tensor<4xi64>) -> (tensor<4x16xf32>, tensor<16x8xf32>) {
  %w = cleave.param "wte.weight" {role = "parameter"} : tensor<16x8xf32>
  %padding = cleave.constant(-1 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %h = aten.embedding(%w, %ids, %padding, %false, %false) : (tensor<16x8xf32>, tensor<4xi64>, i64, i1, i1) -> tensor<4x8xf32>
  %y = aten.linear(%h, %w, %none) : (tensor<4x8xf32>, tensor<16x8xf32>, none) -> tensor<4x16xf32>
  %z = aten.relu(%w) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %y, %z : tensor<4x16xf32>, tensor<16x8xf32>
}

// -----

// A mask stays wide: the least float32 would be an infinity in bfloat16.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %{{.*}}: tensor<1x2x4x8xf32>, %[[MASK:.*]]: tensor<1x1x4x4xf32>)
// CHECK: %[[Q:.*]] = aten.to.dtype
// CHECK-NOT: aten.to.dtype
// CHECK: aten.scaled_dot_product_attention(%[[Q]], %[[Q]], %[[Q]], %[[MASK]], {{.*}} -> tensor<1x2x4x8xbf16>
func.func @attention(%q: tensor<1x2x4x8xf32>, %mask: tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32> {
  %zero = cleave.constant(0.0 : f64) : f64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.scaled_dot_product_attention(%q, %q, %q, %mask, %zero, %false, %none, %false) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>, f64, i1, none, i1) -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}

// -----

// Operands in a list; another user of the list keeps its own.
// CHECK-LABEL: func.func @einsum(
// CHECK: %[[NARROW:.*]] = aten.to.dtype
// CHECK: cleave.list(%[[NARROW]], %[[NARROW]]) : {{.*}} -> !cleave.list<tensor<4x8xbf16>>
// CHECK: aten.einsum({{.*}} -> tensor<4x4xbf16>
// CHECK: aten.stack({{.*}} -> tensor<2x4x8xf32>
func.func @einsum(%x: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<2x4x8xf32>) {
  %equation = cleave.constant("ik,jk->ij") : !cleave.str
  %none = cleave.constant(unit) : none
  %zero = cleave.constant(0 : i64) : i64
  %both = cleave.list(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> !cleave.list<tensor<4x8xf32>>
  %0 = aten.einsum(%equation, %both, %none) : (!cleave.str, !cleave.list<tensor<4x8xf32>>, none) -> tensor<4x4xf32>
  %1 = aten.stack(%both, %zero) : (!cleave.list<tensor<4x8xf32>>, i64) -> tensor<2x4x8xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<2x4x8xf32>
}

// -----

// Indices are no elements of the weight; it is cast for who searches it.
// CHECK-LABEL: func.func @searched(
// CHECK: aten.searchsorted.Tensor({{.*}} -> tensor<8x4xi64>
func.func @searched(%x: tensor<4x8xf32>, %v: tensor<8x4xf32>) -> (tensor<4x8xf32>, tensor<8x4xi64>) {
  %w = cleave.param "table" {role = "parameter"} : tensor<8x8xf32>
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = aten.searchsorted.Tensor(%w, %v, %false, %false, %none, %none) : (tensor<8x8xf32>, tensor<8x4xf32>, i1, i1, none, none) -> tensor<8x4xi64>
  return %0, %1 : tensor<4x8xf32>, tensor<8x4xi64>
}
