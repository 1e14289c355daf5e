// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Softmax attention becomes one operator, with what scales and masks it.

// CHECK-LABEL: func.func @scaled_and_masked(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x4x16x8xf32>, %[[V:.*]]: tensor<2x4x16x8xf32>, %[[M:.*]]: tensor<2x1x16x16xf32>)
// CHECK-DAG: %[[SCALE:.*]] = cleave.constant(2.500000e-01 : f64) : f64
// CHECK-DAG: %[[FALSE:.*]] = cleave.constant(false) : i1
// CHECK-DAG: %[[NONE:.*]] = cleave.constant(0.000000e+00 : f64) : f64
// CHECK: %[[O:.*]] = aten.scaled_dot_product_attention(%[[Q]], %[[K]], %[[V]], %[[M]], %[[NONE]], %[[FALSE]], %[[SCALE]], %[[FALSE]])
// CHECK: aten.transpose.int(%[[O]],
func.func @scaled_and_masked(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %m: tensor<2x1x16x16xf32>) -> tensor<2x16x4x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %scale = cleave.param "constants.0" {role = "constant", number = 4.0 : f64} : tensor<f64>
  %d = aten.div.Tensor(%qk, %scale) : (tensor<2x4x16x16xf32>, tensor<f64>) -> tensor<2x4x16x16xf32>
  %s = aten.add.Tensor(%m, %d, %one) : (tensor<2x1x16x16xf32>, tensor<2x4x16x16xf32>, i64) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %t = aten.transpose.int(%o, %one, %two) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x16x4x8xf32, #cleave.layout<strides = ["512", "8", "128", "1"]>>
  %y = aten.contiguous(%t, %zero) : (tensor<2x16x4x8xf32, #cleave.layout<strides = ["512", "8", "128", "1"]>>, i64) -> tensor<2x16x4x8xf32>
  return %y : tensor<2x16x4x8xf32>
}

// Without scale and mask, as T5 without its bias; whoever takes the result as it lies gets it row-major.
// CHECK-LABEL: func.func @plain(
// CHECK-DAG: %[[ONE:.*]] = cleave.constant(1.000000e+00 : f64) : f64
// CHECK-DAG: %[[NONE:.*]] = cleave.constant(unit) : none
// CHECK: %[[O:.*]] = aten.scaled_dot_product_attention({{.*}}, {{.*}}, {{.*}}, %[[NONE]], {{.*}}, {{.*}}, %[[ONE]], {{.*}})
// CHECK: %[[Y:.*]] = aten.contiguous(%[[O]],
// CHECK: return %[[Y]]
func.func @plain(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%qk, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// The least float32 in the place of a score is that added to it.
// CHECK-LABEL: func.func @filled(
// CHECK-SAME: %[[B:[a-z0-9]*]]: tensor<1x1x16x16xi1>,
// CHECK-DAG: %[[ZERO:.*]] = cleave.constant(0.000000e+00 : f64) : f64
// CHECK-DAG: %[[LEAST:.*]] = cleave.constant(-3.4{{.*}}E+38 : f64) : f64
// CHECK: %[[FILL:.*]] = aten.where.Scalar(%[[B]], %[[ZERO]], %[[LEAST]])
// CHECK: %[[MASK:.*]] = aten.add.Tensor(%[[FILL]], %{{.*}}, %{{.*}})
// CHECK: aten.scaled_dot_product_attention({{.*}}, {{.*}}, {{.*}}, %[[MASK]],
func.func @filled(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %b: tensor<1x1x16x16xi1>, %m: tensor<2x1x16x16xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %least = cleave.param "constants.1" {role = "constant", number = -3.4028234663852886e+38 : f64} : tensor<f32>
  %w = aten.where.self(%b, %qk, %least) : (tensor<1x1x16x16xi1>, tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16x16xf32>
  %s = aten.add.Tensor(%w, %m, %one) : (tensor<2x4x16x16xf32>, tensor<2x1x16x16xf32>, i64) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// CHECK-LABEL: func.func @masked_fill(
// CHECK-DAG: %[[ZERO:.*]] = cleave.constant(0.000000e+00 : f64) : f64
// CHECK-DAG: %[[LEAST:.*]] = cleave.constant(-3.4{{.*}}E+38 : f64) : f64
// CHECK: aten.where.Scalar(%{{.*}}, %[[LEAST]], %[[ZERO]])
// CHECK: aten.scaled_dot_product_attention(
func.func @masked_fill(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %b: tensor<1x1x16x16xi1>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %least = cleave.constant(-3.4028234663852886e+38 : f64) : f64
  %s = aten.masked_fill.Scalar(%qk, %b, %least) : (tensor<2x4x16x16xf32>, tensor<1x1x16x16xi1>, f64) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// Queries that are scaled beforehand.
// CHECK-LABEL: func.func @scaled_queries(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x4x16x8xf32>, %[[V:.*]]: tensor<2x4x16x8xf32>)
// CHECK: %[[SCALE:.*]] = cleave.constant(2.500000e-01 : f64) : f64
// CHECK: aten.scaled_dot_product_attention(%[[Q]], {{.*}}, %[[SCALE]],
func.func @scaled_queries(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %scale = cleave.param "constants.0" {role = "constant", number = 0.25 : f64} : tensor<f64>
  %qs = aten.mul.Tensor(%q, %scale) : (tensor<2x4x16x8xf32>, tensor<f64>) -> tensor<2x4x16x8xf32>
  %qk = aten.matmul(%qs, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%qk, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// Does nothing when a row may hold nothing but -inf, whose softmax is NaN and attention zero;
// CHECK-LABEL: func.func @infinite(
// CHECK-NOT: scaled_dot
func.func @infinite(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %b: tensor<1x1x16x16xi1>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %inf = cleave.constant(0xFFF0000000000000 : f64) : f64
  %s = aten.masked_fill.Scalar(%qk, %b, %inf) : (tensor<2x4x16x16xf32>, tensor<1x1x16x16xi1>, f64) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// when a fill is one that a score adds to, or is added to before it is scaled;
// CHECK-LABEL: func.func @small_fill(
// CHECK-NOT: scaled_dot
func.func @small_fill(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %b: tensor<1x1x16x16xi1>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %low = cleave.constant(-1.0e+04 : f64) : f64
  %s = aten.masked_fill.Scalar(%qk, %b, %low) : (tensor<2x4x16x16xf32>, tensor<1x1x16x16xi1>, f64) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// CHECK-LABEL: func.func @scaled_mask(
// CHECK-NOT: scaled_dot
func.func @scaled_mask(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %m: tensor<2x1x16x16xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %scale = cleave.param "constants.0" {role = "constant", number = 0.25 : f64} : tensor<f64>
  %a = aten.add.Tensor(%qk, %m, %one) : (tensor<2x4x16x16xf32>, tensor<2x1x16x16xf32>, i64) -> tensor<2x4x16x16xf32>
  %s = aten.mul.Tensor(%a, %scale) : (tensor<2x4x16x16xf32>, tensor<f64>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// when the weights are a result too, or the softmax is over the queries.
// CHECK-LABEL: func.func @taken(
// CHECK-NOT: scaled_dot
func.func @taken(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x16xf32>) {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%qk, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o, %p : tensor<2x4x16x8xf32>, tensor<2x4x16x16xf32>
}

// CHECK-LABEL: func.func @over_queries(
// CHECK-NOT: scaled_dot
func.func @over_queries(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%qk, %two, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// A boundary that is kept can be captured.
// CHECK-LABEL: func.func @captured(
// CHECK-NOT: scaled_dot
func.func @captured(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %before = cleave.constant(-2 : i64) : i64
  %none = cleave.constant(unit) : none
  %kt = aten.transpose.int(%k, %last, %before) : (tensor<2x4x16x8xf32>, i64, i64) -> tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>
  %qk = aten.matmul(%q, %kt) : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32, #cleave.layout<strides = ["512", "128", "1", "8"]>>) -> tensor<2x4x16x16xf32>
  %s = cleave.boundary %qk "attn.scores" output 0 : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = aten.softmax.int(%s, %last, %none) : (tensor<2x4x16x16xf32>, i64, none) -> tensor<2x4x16x16xf32>
  %o = aten.matmul(%p, %v) : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}
