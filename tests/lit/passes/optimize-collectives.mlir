// RUN: cleave-opt %s --optimize-collectives | FileCheck %s
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

// What every rank has is added behind the sum of both: words, types and positions.
// CHECK-LABEL: func.func @past_whole
// CHECK: %[[PARTS:.*]] = aten.add.Tensor(%arg0, %arg1,
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%[[PARTS]])
// CHECK: %[[FIRST:.*]] = aten.add.Tensor(%[[SUM]], %arg2,
// CHECK: %[[SECOND:.*]] = aten.add.Tensor(%[[FIRST]], %arg2,
// CHECK: return %[[SECOND]]
func.func @past_whole(%words: tensor<2x8x6xf32>, %positions: tensor<1x8x6xf32>, %types: tensor<2x8x6xf32>)
    -> tensor<2x8x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %0 = spmd.all_reduce(%words) : (tensor<2x8x6xf32>) -> tensor<2x8x6xf32>
  %1 = aten.add.Tensor(%0, %types, %one) : (tensor<2x8x6xf32>, tensor<2x8x6xf32>, i64) -> tensor<2x8x6xf32>
  %2 = aten.add.Tensor(%1, %types, %one) : (tensor<2x8x6xf32>, tensor<2x8x6xf32>, i64) -> tensor<2x8x6xf32>
  %3 = spmd.all_reduce(%positions) : (tensor<1x8x6xf32>) -> tensor<1x8x6xf32>
  %4 = aten.add.Tensor(%2, %3, %one) : (tensor<2x8x6xf32>, tensor<1x8x6xf32>, i64) -> tensor<2x8x6xf32>
  return %4 : tensor<2x8x6xf32>
}

// Three sums are one.
// CHECK-LABEL: func.func @three
// CHECK: %[[TWO:.*]] = aten.add.Tensor(%arg0, %arg1,
// CHECK: %[[THREE:.*]] = aten.add.Tensor(%[[TWO]], %arg2,
// CHECK: spmd.all_reduce(%[[THREE]])
func.func @three(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %z: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = spmd.all_reduce(%y) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = spmd.all_reduce(%z) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = aten.add.Tensor(%0, %1, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  %4 = aten.add.Tensor(%3, %2, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}
