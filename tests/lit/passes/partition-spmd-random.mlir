// RUN: cleave-opt %s --split-input-file --infer-types --propagate-sharding --insert-reshards --partition-spmd | FileCheck %s
// RUN: not cleave-opt %s --split-input-file --annotate-sharding=tp=2 2>&1 | FileCheck %s --check-prefix=INSIDE
// Ranks would draw other numbers each: all take the first one's. Inside control flow that cannot be, and is refused.

// CHECK-LABEL: func.func @forward
// CHECK: %[[OWN:.*]] = aten.rand_like(
// CHECK: %[[SAME:.*]] = spmd.broadcast(%[[OWN]],
// CHECK: aten.linear(%[[SAME]],
func.func @forward(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.rand_like(%x, %none, %none, %none, %none, %none) : (tensor<4x6xf32>, none, none, none, none, none) -> !cleave.tensor
  %1 = aten.linear(%0, %w, %none) : (!cleave.tensor, tensor<8x6xf32>, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// INSIDE: error: aten.rand_like draws random numbers inside control flow
func.func @inside(%x: tensor<4x6xf32>, %c: i1) -> tensor<4x6xf32> {
  %none = cleave.constant(unit) : none
  %0 = cleave.if %c : tensor<4x6xf32> {
    %1 = aten.rand_like(%x, %none, %none, %none, %none, %none) : (tensor<4x6xf32>, none, none, none, none, none) -> tensor<4x6xf32>
    cleave.yield %1 : tensor<4x6xf32>
  } else {
    cleave.yield %x : tensor<4x6xf32>
  }
  return %0 : tensor<4x6xf32>
}
