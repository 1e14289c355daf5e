// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(differentiate{loss=second trainable=a.* inputs=x}))' | FileCheck %s

// Of `second`, with respect to weights that match and the argument; no gradient is computed that nobody wants.
// CHECK-LABEL: func.func @options(
// CHECK-SAME: tensor<f32> {cleave.loss, cleave.name = "second"}, tensor<8x8xf32> {cleave.gradient, cleave.name = "grad.a.w"}, tensor<4x8xf32> {cleave.gradient, cleave.name = "grad.x"})
// CHECK-COUNT-5: aten.mm(
// CHECK-NOT: aten.mm(
func.func @options(%x: tensor<4x8xf32> {cleave.name = "x"})
    -> (!cleave.tensor {cleave.name = "first"}, !cleave.tensor {cleave.name = "second"}) {
  %a = cleave.param "a.w" {role = "parameter"} : tensor<8x8xf32>
  %b = cleave.param "b.w" {role = "parameter"} : tensor<8x8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mm(%x, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> !cleave.tensor
  %1 = aten.mm(%0, %b) : (!cleave.tensor, tensor<8x8xf32>) -> !cleave.tensor
  %2 = aten.sum(%1, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %2, %2 : !cleave.tensor, !cleave.tensor
}
