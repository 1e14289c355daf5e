// RUN: cleave-opt %s --strip-boundaries=keep=act.* --rewrite-idioms | FileCheck %s --check-prefix=KEPT
// RUN: cleave-opt %s --strip-boundaries=keep=h.* --rewrite-idioms | FileCheck %s --check-prefix=STRIPPED
// RUN: cleave-opt %s --strip-boundaries=observe=true --rewrite-idioms | FileCheck %s --check-prefix=OBSERVED
// A module's output that was declared for capture ends an idiom; one that was not does not.

// KEPT-LABEL: func.func @forward(
// KEPT: %[[T:.*]] = aten.tanh
// KEPT: cleave.boundary %[[T]] "act.tanh"
// STRIPPED-LABEL: func.func @forward(
// STRIPPED: aten.gelu
// STRIPPED-NOT: aten.tanh
// OBSERVED-LABEL: func.func @forward(
// OBSERVED: aten.gelu
// OBSERVED-NOT: aten.tanh
// OBSERVED-NOT: cleave.observe
func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
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
