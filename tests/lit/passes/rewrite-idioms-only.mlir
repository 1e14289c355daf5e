// RUN: cleave-opt %s --rewrite-idioms=only=rms-norm | FileCheck %s --check-prefix=NORM
// RUN: cleave-opt %s --rewrite-idioms=only=tanh-gelu,attention | FileCheck %s --check-prefix=OTHERS
// Those alone that are named.

// NORM: aten.rms_norm
// OTHERS: aten.rsqrt
// OTHERS-NOT: aten.rms_norm
func.func @norm(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %two = cleave.constant(2 : i64) : i64
  %last = cleave.constant([-1]) : !cleave.list<i64>
  %keep = cleave.constant(true) : i1
  %none = cleave.constant(unit) : none
  %eps = cleave.constant(9.9999999999999995e-07 : f64) : f64
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.pow.Tensor_Scalar(%x, %two) : (tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  %1 = aten.mean.dim(%0, %last, %keep, %none) : (tensor<4x6xf32>, !cleave.list<i64>, i1, none) -> tensor<4x1xf32>
  %2 = aten.add.Scalar(%1, %eps, %one) : (tensor<4x1xf32>, f64, i64) -> tensor<4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = aten.mul.Tensor(%x, %3) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}
