// RUN: cleave-opt %s --place-collectives | FileCheck %s
// Fewer sums, and smaller ones.

// Layers beside one another, whose outputs are added, have one sum; views in between do not matter.
// CHECK-LABEL: func.func @beside
// CHECK: %[[VIEW:.*]] = aten.view(%arg1,
// CHECK: %[[ADDED:.*]] = aten.add.Tensor(%arg0, %[[VIEW]], %{{.*}})
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%[[ADDED]])
// CHECK: return %[[SUM]]
func.func @beside(%x: tensor<4x6xf32>, %y: tensor<2x2x6xf32>) -> tensor<4x6xf32> {
  %two = cleave.constant(2 : i64) : i64
  %rows = cleave.constant([4, 6]) : !cleave.list<i64>
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = spmd.all_reduce(%y) : (tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
  %2 = aten.view(%1, %rows) : (tensor<2x2x6xf32>, !cleave.list<i64>) -> tensor<4x6xf32>
  %3 = aten.add.Tensor(%0, %2, %two) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// A rank that takes a part of a sum gets no more.
// CHECK-LABEL: func.func @part
// CHECK: %[[RANGES:.*]] = cleave.per_rank({{\[\[}}0, 3], [3, 3]]) : !cleave.list<i64>
// CHECK: spmd.reduce_scatter(%arg0, %{{.*}}, %[[RANGES]])
// CHECK-NOT: all_reduce
func.func @part(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %begin = cleave.per_rank([0, 3]) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = aten.narrow(%0, %one, %begin, %three) : (tensor<4x6xf32>, i64, i64, i64) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
