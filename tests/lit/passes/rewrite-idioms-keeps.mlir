// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Does nothing when a constant is another, somebody takes something of it but the result, or the dtype rounds often.

// CHECK-LABEL: func.func @other_constant(
// CHECK: aten.tanh
func.func @other_constant(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.0447 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.79788456080286541 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (tensor<4x8xf32>, f64) -> tensor<4x8xf32>
  %2 = aten.mul.Tensor(%1, %cubic) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %3 = aten.add.Tensor(%x, %2, %one) : (tensor<4x8xf32>, tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %4 = aten.mul.Tensor(%3, %root) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %5 = aten.tanh(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = aten.add.Tensor(%5, %unit, %one) : (tensor<4x8xf32>, tensor<f64>, i64) -> tensor<4x8xf32>
  %7 = aten.mul.Tensor(%0, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// A constant of ten digits is another in float64.
// CHECK-LABEL: func.func @few_digits(
// CHECK: aten.tanh
func.func @few_digits(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.7978845608 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (tensor<4x8xf64>, tensor<f64>) -> tensor<4x8xf64>
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (tensor<4x8xf64>, f64) -> tensor<4x8xf64>
  %2 = aten.mul.Tensor(%1, %cubic) : (tensor<4x8xf64>, tensor<f64>) -> tensor<4x8xf64>
  %3 = aten.add.Tensor(%x, %2, %one) : (tensor<4x8xf64>, tensor<4x8xf64>, i64) -> tensor<4x8xf64>
  %4 = aten.mul.Tensor(%3, %root) : (tensor<4x8xf64>, tensor<f64>) -> tensor<4x8xf64>
  %5 = aten.tanh(%4) : (tensor<4x8xf64>) -> tensor<4x8xf64>
  %6 = aten.add.Tensor(%5, %unit, %one) : (tensor<4x8xf64>, tensor<f64>, i64) -> tensor<4x8xf64>
  %7 = aten.mul.Tensor(%0, %6) : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  return %7 : tensor<4x8xf64>
}

// CHECK-LABEL: func.func @taken(
// CHECK: aten.tanh
func.func @taken(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.79788456080286541 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (tensor<4x8xf32>, f64) -> tensor<4x8xf32>
  %2 = aten.mul.Tensor(%1, %cubic) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %3 = aten.add.Tensor(%x, %2, %one) : (tensor<4x8xf32>, tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %4 = aten.mul.Tensor(%3, %root) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %5 = aten.tanh(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = aten.add.Tensor(%5, %unit, %one) : (tensor<4x8xf32>, tensor<f64>, i64) -> tensor<4x8xf32>
  %7 = aten.mul.Tensor(%0, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7, %5 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @narrow(
// CHECK: aten.tanh
func.func @narrow(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.79788456080286541 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (tensor<4x8xbf16>, tensor<f64>) -> tensor<4x8xbf16>
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (tensor<4x8xbf16>, f64) -> tensor<4x8xbf16>
  %2 = aten.mul.Tensor(%1, %cubic) : (tensor<4x8xbf16>, tensor<f64>) -> tensor<4x8xbf16>
  %3 = aten.add.Tensor(%x, %2, %one) : (tensor<4x8xbf16>, tensor<4x8xbf16>, i64) -> tensor<4x8xbf16>
  %4 = aten.mul.Tensor(%3, %root) : (tensor<4x8xbf16>, tensor<f64>) -> tensor<4x8xbf16>
  %5 = aten.tanh(%4) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %6 = aten.add.Tensor(%5, %unit, %one) : (tensor<4x8xbf16>, tensor<f64>, i64) -> tensor<4x8xbf16>
  %7 = aten.mul.Tensor(%0, %6) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %7 : tensor<4x8xbf16>
}

// A boundary that is kept can be captured.
// CHECK-LABEL: func.func @boundary(
// CHECK: aten.tanh
// CHECK: cleave.boundary
// CHECK: aten.mul
func.func @boundary(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.79788456080286541 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (tensor<4x8xf32>, f64) -> tensor<4x8xf32>
  %2 = aten.mul.Tensor(%1, %cubic) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %3 = aten.add.Tensor(%x, %2, %one) : (tensor<4x8xf32>, tensor<4x8xf32>, i64) -> tensor<4x8xf32>
  %4 = aten.mul.Tensor(%3, %root) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %5 = aten.tanh(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = cleave.boundary %5 "act.tanh" output 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = aten.add.Tensor(%b, %unit, %one) : (tensor<4x8xf32>, tensor<f64>, i64) -> tensor<4x8xf32>
  %7 = aten.mul.Tensor(%0, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}
