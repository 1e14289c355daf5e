// RUN: cleave-opt %s --infer-types --propagate-sharding --insert-reshards --partition-spmd | FileCheck %s
// Two heads of keys for eight of queries, over three ranks: the second has two queries of the first head of keys and one
// of the other, so each query gets a copy of its own.

// CHECK-LABEL: func.func @grouped
// CHECK: cleave.param "k" {{.*}}shard = #cleave.sharding<0, [0, 2], [0, 4], [2, 2]>
// CHECK: %[[TAKEN:.*]] = cleave.per_rank{{.*}}[0, 1, 0, 1], [0, 1, 0, 2], [0, 1, 0, 1, 0, 1]
// CHECK: %[[KEYS:.*]] = spmd.shard(%{{.*}}, %{{.*}}, %[[TAKEN]])
// CHECK: aten.scaled_dot_product_attention(%{{[^,]*}}, %[[KEYS]],
func.func @grouped(%x: tensor<2x5x6xf32>) -> !cleave.tensor attributes {cleave.tp = 3 : i64} {
  %wq = cleave.param "q" {role = "parameter"} : tensor<16x6xf32>
  %wk = cleave.param "k" {role = "parameter"} : tensor<4x6xf32>
  %wo = cleave.param "out" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 1>>} : tensor<6x16xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %yes = cleave.constant(true) : i1
  %never = cleave.constant(0.0 : f64) : f64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %heads = cleave.constant([2, 5, 8, 2]) : !cleave.list<i64>
  %groups = cleave.constant([2, 5, 2, 2]) : !cleave.list<i64>
  %rows = cleave.constant([2, 5, 16]) : !cleave.list<i64>
  %0 = aten.linear(%x, %wq, %none) : (tensor<2x5x6xf32>, tensor<16x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%x, %wk, %none) : (tensor<2x5x6xf32>, tensor<4x6xf32>, none) -> !cleave.tensor
  %q0 = aten.view(%0, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %k0 = aten.view(%1, %groups) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %q = aten.transpose.int(%q0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %k = aten.transpose.int(%k0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %3 = aten.scaled_dot_product_attention(%q, %k, %k, %none, %never, %no, %none, %yes)
      : (!cleave.tensor, !cleave.tensor, !cleave.tensor, none, f64, i1, none, i1) -> !cleave.tensor
  %4 = aten.transpose.int(%3, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %5 = aten.reshape(%4, %rows) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %6 = aten.linear(%5, %wo, %none) : (!cleave.tensor, tensor<6x16xf32>, none) -> !cleave.tensor
  return %6 : !cleave.tensor
}
