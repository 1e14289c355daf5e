// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Seven operators that compute the GELU by a tanh become one.

// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[TANH:.*]] = cleave.constant("tanh") : !cleave.str
// CHECK-NEXT: %[[Y:.*]] = aten.gelu(%[[X]], %[[TANH]])
// CHECK-NEXT: return %[[Y]]
func.func @gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
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
  return %7 : tensor<4x8xf32>
}

// Sizes that a request decides change nothing.
// CHECK-LABEL: func.func @named(
// CHECK: aten.gelu(
// CHECK-NOT: aten.mul
!named = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @named(%x: !named) -> !named attributes {cleave.symbols = {batch = 4}} {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.79788456080286541 : f64} : tensor<f64>
  %unit = cleave.param "constants.3" {role = "constant", number = 1.0 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %half) : (!named, tensor<f64>) -> !named
  %1 = aten.pow.Tensor_Scalar(%x, %three) : (!named, f64) -> !named
  %2 = aten.mul.Tensor(%1, %cubic) : (!named, tensor<f64>) -> !named
  %3 = aten.add.Tensor(%x, %2, %one) : (!named, !named, i64) -> !named
  %4 = aten.mul.Tensor(%3, %root) : (!named, tensor<f64>) -> !named
  %5 = aten.tanh(%4) : (!named) -> !named
  %6 = aten.add.Tensor(%5, %unit, %one) : (!named, tensor<f64>, i64) -> !named
  %7 = aten.mul.Tensor(%0, %6) : (!named, !named) -> !named
  return %7 : !named
}

// x out of the sum, commuted and associated in another way, with a constant of ten digits, as "gelu_fast".
// CHECK-LABEL: func.func @fast(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK: aten.gelu(%[[X]],
// CHECK-NOT: aten.mul
func.func @fast(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = cleave.param "constants.0" {role = "constant", number = 0.5 : f64} : tensor<f64>
  %cubic = cleave.param "constants.1" {role = "constant", number = 0.044715 : f64} : tensor<f64>
  %root = cleave.param "constants.2" {role = "constant", number = 0.7978845608 : f64} : tensor<f64>
  %one = cleave.constant(1 : i64) : i64
  %unit = cleave.constant(1.0 : f64) : f64
  %0 = aten.mul.Tensor(%root, %x) : (tensor<f64>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = aten.mul.Tensor(%x, %cubic) : (tensor<4x8xf32>, tensor<f64>) -> tensor<4x8xf32>
  %2 = aten.mul.Tensor(%1, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = aten.add.Scalar(%2, %unit, %one) : (tensor<4x8xf32>, f64, i64) -> tensor<4x8xf32>
  %4 = aten.mul.Tensor(%0, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = aten.tanh(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = aten.add.Scalar(%5, %unit, %one) : (tensor<4x8xf32>, f64, i64) -> tensor<4x8xf32>
  %7 = aten.mul.Tensor(%6, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = aten.mul.Tensor(%half, %7) : (tensor<f64>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// In regions too.
// CHECK-LABEL: func.func @region(
// CHECK: cleave.if
// CHECK: aten.gelu(
// CHECK-NOT: aten.tanh
func.func @region(%x: tensor<4x8xf32>, %c: i1) -> tensor<4x8xf32> {
  %r = cleave.if %c : tensor<4x8xf32> {
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
    cleave.yield %7 : tensor<4x8xf32>
  } else {
    cleave.yield %x : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}
