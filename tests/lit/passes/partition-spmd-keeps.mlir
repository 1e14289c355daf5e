// RUN: cleave-opt %s --split-input-file --propagate-sharding --insert-reshards --partition-spmd | FileCheck %s
// Without a tensor group, and without anything that is split, nothing changes.

// CHECK-LABEL: func.func @alone
// CHECK: cleave.param "w" {cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>, role = "parameter"} : tensor<6x6xf32>
// CHECK-NOT: spmd
func.func @alone(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @unsplit
// CHECK: cleave.param "w" {role = "parameter"} : tensor<6x6xf32>
// CHECK: aten.linear({{.*}}) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
// CHECK-NOT: spmd
func.func @unsplit(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter"} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
