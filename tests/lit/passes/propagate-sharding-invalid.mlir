// RUN: cleave-opt %s --propagate-sharding --verify-diagnostics

func.func @forward(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {cleave.tp = 2 : i64} {
  // expected-error @below {{has no dimension 2 to split}}
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 2>>} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
