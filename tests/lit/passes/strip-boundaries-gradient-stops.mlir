// RUN: cleave-opt %s --strip-boundaries | FileCheck %s
// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(strip-boundaries{keep-gradient-stops=true},canonicalize))' | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: func.func @stop(
// CHECK-NEXT: return %arg0
// KEPT: aten.detach(
func.func @stop(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.detach(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
