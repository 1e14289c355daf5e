// RUN: cleave-opt %s --infer-types --propagate-sharding --insert-reshards --partition-spmd | FileCheck %s
// In training each rank drops what it has by numbers of its own: nothing is gathered for that, and nothing handed out.

// CHECK-LABEL: func.func @forward
// CHECK-NOT: spmd.
// CHECK: aten.linear({{.*}}) : (tensor<4x6xf32>, tensor<4x6xf32>, none)
// CHECK-NEXT: aten.dropout(
// CHECK-NOT: spmd.
// CHECK: spmd.all_reduce(
// CHECK-NOT: spmd.
func.func @forward(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64, cleave.training} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %down = cleave.param "down" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 1>>} : tensor<6x8xf32>
  %none = cleave.constant(unit) : none
  %yes = cleave.constant(true) : i1
  %chance = cleave.constant(1.0e-1 : f64) : f64
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> !cleave.tensor
  %1 = aten.dropout(%0, %chance, %yes) : (!cleave.tensor, f64, i1) -> !cleave.tensor
  %2 = aten.linear(%1, %down, %none) : (!cleave.tensor, tensor<6x8xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
