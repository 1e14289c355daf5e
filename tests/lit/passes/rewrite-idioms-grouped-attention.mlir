// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Keys and values are not repeated for the query heads that share them.

// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x2x16x8xf32>, %[[V:.*]]: tensor<2x2x16x8xf32>)
// CHECK: %[[TRUE:.*]] = cleave.constant(true) : i1
// CHECK: aten.scaled_dot_product_attention(%[[Q]], %[[K]], %[[V]], {{.*}}, %[[TRUE]])
// CHECK-NOT: aten.expand
func.func @grouped(%q: tensor<2x4x16x8xf32>, %k: tensor<2x2x16x8xf32>, %v: tensor<2x2x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %two = cleave.constant(2 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %p = cleave.constant(0.0 : f64) : f64
  %many = cleave.constant([2, 2, 2, 16, 8]) : !cleave.list<i64>
  %flat = cleave.constant([2, 4, 16, 8]) : !cleave.list<i64>
  %k0 = aten.unsqueeze(%k, %two) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x2x1x16x8xf32>
  %k1 = aten.expand(%k0, %many, %false) : (tensor<2x2x1x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>
  %k2 = aten.reshape(%k1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %v0 = aten.unsqueeze(%v, %two) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x2x1x16x8xf32>
  %v1 = aten.expand(%v0, %many, %false) : (tensor<2x2x1x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>
  %v2 = aten.reshape(%v1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %o = aten.scaled_dot_product_attention(%q, %k2, %v2, %none, %p, %false, %none, %false) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, none, f64, i1, none, i1) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// Does nothing when somebody else takes them repeated.
// CHECK-LABEL: func.func @taken(
// CHECK: aten.expand
func.func @taken(%q: tensor<2x4x16x8xf32>, %k: tensor<2x2x16x8xf32>, %v: tensor<2x2x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) {
  %two = cleave.constant(2 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %p = cleave.constant(0.0 : f64) : f64
  %many = cleave.constant([2, 2, 2, 16, 8]) : !cleave.list<i64>
  %flat = cleave.constant([2, 4, 16, 8]) : !cleave.list<i64>
  %k0 = aten.unsqueeze(%k, %two) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x2x1x16x8xf32>
  %k1 = aten.expand(%k0, %many, %false) : (tensor<2x2x1x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>
  %k2 = aten.reshape(%k1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %v0 = aten.unsqueeze(%v, %two) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x2x1x16x8xf32>
  %v1 = aten.expand(%v0, %many, %false) : (tensor<2x2x1x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>
  %v2 = aten.reshape(%v1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "128", "0", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %o = aten.scaled_dot_product_attention(%q, %k2, %v2, %none, %p, %false, %none, %false) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, none, f64, i1, none, i1) -> tensor<2x4x16x8xf32>
  return %o, %k2 : tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>
}

// Heads in another order: g·n + … is not n·g + ….
// CHECK-LABEL: func.func @other_order(
// CHECK: aten.expand
func.func @other_order(%q: tensor<2x4x16x8xf32>, %k: tensor<2x2x16x8xf32>, %v: tensor<2x2x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %p = cleave.constant(0.0 : f64) : f64
  %many = cleave.constant([2, 2, 2, 16, 8]) : !cleave.list<i64>
  %flat = cleave.constant([2, 4, 16, 8]) : !cleave.list<i64>
  %k0 = aten.unsqueeze(%k, %one) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x1x2x16x8xf32>
  %k1 = aten.expand(%k0, %many, %false) : (tensor<2x1x2x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "0", "128", "8", "1"]>>
  %k2 = aten.reshape(%k1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "0", "128", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %v0 = aten.unsqueeze(%v, %one) : (tensor<2x2x16x8xf32>, i64) -> tensor<2x1x2x16x8xf32>
  %v1 = aten.expand(%v0, %many, %false) : (tensor<2x1x2x16x8xf32>, !cleave.list<i64>, i1) -> tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "0", "128", "8", "1"]>>
  %v2 = aten.reshape(%v1, %flat) : (tensor<2x2x2x16x8xf32, #cleave.layout<strides = ["256", "0", "128", "8", "1"]>>, !cleave.list<i64>) -> tensor<2x4x16x8xf32>
  %o = aten.scaled_dot_product_attention(%q, %k2, %v2, %none, %p, %false, %none, %false) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, none, f64, i1, none, i1) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
