// RUN: cleave-opt %s --infer-types --propagate-sharding --insert-reshards | FileCheck %s
// A part of one position would vanish: what squeeze may drop is gathered before it.
// CHECK: %[[Y:.*]] = aten.linear
// CHECK: %[[WHOLE:.*]] = cleave.reshard %[[Y]] :
// CHECK: aten.squeeze(%[[WHOLE]])
func.func @forward(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<2x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<2x6xf32>, none) -> !cleave.tensor
  %1 = aten.squeeze(%0) : (!cleave.tensor) -> !cleave.tensor
  return %1 : !cleave.tensor
}
