// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Root-mean-square norms become one operator, with their weight where it has the norm's dtype and shape.

// CHECK-LABEL: func.func @rms_norm(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>)
// CHECK-DAG: %[[SHAPE:.*]] = cleave.constant([8]) : !cleave.list<i64>
// CHECK-DAG: %[[EPS:.*]] = cleave.constant(9.9{{.*}}E-7 : f64) : f64
// CHECK: %[[Y:.*]] = aten.rms_norm(%[[X]], %[[SHAPE]], %[[W]], %[[EPS]])
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf32>, !cleave.list<i64>, i1, none) -> tensor<4x1xf32>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<4x1xf32>, tensor<f64>, i64) -> tensor<4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %5 = aten.mul.Tensor(%w, %4) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @without_weight(
// CHECK: %[[NONE:.*]] = cleave.constant(unit) : none
// CHECK: aten.rms_norm({{.*}}, %[[NONE]],
func.func @without_weight(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf32>, !cleave.list<i64>, i1, none) -> tensor<4x1xf32>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<4x1xf32>, tensor<f64>, i64) -> tensor<4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// What is rounded to float16 before the weight stays so.
// CHECK-LABEL: func.func @casts(
// CHECK: %[[NORM:.*]] = aten.rms_norm(
// CHECK: %[[NARROW:.*]] = aten.to.dtype(%[[NORM]],
// CHECK: aten.mul.Tensor({{.*}}%[[NARROW]])
func.func @casts(%x: tensor<4x8xf32>, %w: tensor<8xf16>) -> tensor<4x8xf16> {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf32>, !cleave.list<i64>, i1, none) -> tensor<4x1xf32>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<4x1xf32>, tensor<f64>, i64) -> tensor<4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %half = cleave.constant(5 : i64) : i64
  %false = cleave.constant(false) : i1
  %5 = aten.to.dtype(%4, %half, %false, %false, %none) : (tensor<4x8xf32>, i64, i1, i1, none) -> tensor<4x8xf16>
  %6 = aten.mul.Tensor(%w, %5) : (tensor<8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  return %6 : tensor<4x8xf16>
}

// A mean over another dimension is none, nor one of which somebody takes the factor.
// CHECK-LABEL: func.func @other_dimension(
// CHECK-NOT: aten.rms_norm
func.func @other_dimension(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([0]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf32>, !cleave.list<i64>, i1, none) -> tensor<1x8xf32>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<1x8xf32>, tensor<f64>, i64) -> tensor<1x8xf32>
  %3 = aten.rsqrt(%2) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @taken(
// CHECK-NOT: aten.rms_norm
func.func @taken(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf32>, !cleave.list<i64>, i1, none) -> tensor<4x1xf32>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<4x1xf32>, tensor<f64>, i64) -> tensor<4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %4, %3 : tensor<4x8xf32>, tensor<4x1xf32>
}

// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: aten.rms_norm
func.func @narrow(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %eps = cleave.param "constants.0" {role = "constant", number = 1.0e-06 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %true = cleave.constant(true) : i1
  %dims = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x8xf16>, i64) -> tensor<4x8xf16>
  %1 = aten.mean.dim(%0, %dims, %true, %none) : (tensor<4x8xf16>, !cleave.list<i64>, i1, none) -> tensor<4x1xf16>
  %2 = aten.add.Tensor(%1, %eps, %one) : (tensor<4x1xf16>, tensor<f64>, i64) -> tensor<4x1xf16>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf16>) -> tensor<4x1xf16>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16>
  return %4 : tensor<4x8xf16>
}
