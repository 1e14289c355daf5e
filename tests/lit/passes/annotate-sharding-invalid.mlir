// RUN: not cleave-opt %s --annotate-sharding="tp=2 shard=layers.0.up=colwise" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not cleave-opt %s --annotate-sharding="tp=2 shard=scale=colwise" 2>&1 | FileCheck %s --check-prefix=NOWEIGHT
// RUN: not cleave-opt %s --annotate-sharding="tp=2 shard=*=colwis" 2>&1 | FileCheck %s --check-prefix=STYLE
// RUN: not cleave-opt %s --annotate-sharding="tp=2 machine=nothing" 2>&1 | FileCheck %s --check-prefix=MACHINE
// RUN: not cleave-opt %s --annotate-sharding="tp=2 shard=layer.*=embedding_rowwise" 2>&1 | FileCheck %s --check-prefix=UNMET
// RUN: not cleave-opt %s --annotate-sharding="tp=9" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: cleave-opt %s --annotate-sharding="tp=6" 2>&1 | FileCheck %s --check-prefix=MOST
// Each fault is said with what was expected.

// NEAR: error: --shard layers.0.up: matches no weight of a linear layer, convolution or embedding; did you mean layer.0.up?
// NOWEIGHT: error: --shard scale: matches no weight of a linear layer, convolution or embedding; there are layer.0.up.weight{{$}}
// STYLE: error: --shard *=colwis: found style "colwis", expected colwise, rowwise, embedding_rowwise or replicate; did you mean colwise?
// UNMET: error: --shard: layer.0.up.weight cannot be embedding_rowwise over tp=2
// MACHINE: error: {{.*}}nothing
// NONE: error: --mesh tp=9: found no weight that 9 ranks can split, expected at most 6; use fewer tensor-parallel ranks, or pipeline stages (--mesh pp=N)
// MOST: cleave.param "layer.0.up.weight" {{.*}}wise
func.func @forward(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = cleave.param "layer.0.up.weight" {role = "parameter"} : tensor<6x6xf32>
  %s = cleave.param "scale" {role = "parameter"} : tensor<6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  %1 = aten.mul.Tensor(%0, %s) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
