// RUN: cleave-opt %s --optimize-collectives | FileCheck %s
// Sums that stay where they are.

// Somebody else takes the sum too.
// CHECK-LABEL: func.func @shared
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%arg0)
// CHECK: aten.add.Tensor(%[[SUM]],
func.func @shared(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %one = cleave.constant(1 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = spmd.all_reduce(%y) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = aten.add.Tensor(%0, %1, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  return %0, %2 : tensor<4x6xf32>, tensor<4x6xf32>
}

// What every rank has would be added by each.
// CHECK-LABEL: func.func @whole
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%arg0)
// CHECK: aten.add.Tensor(%[[SUM]], %arg1,
func.func @whole(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = aten.add.Tensor(%0, %y, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// The sum of bits is not the bits of the sum, and a sum of rounded numbers is not the rounded sum.
// CHECK-LABEL: func.func @bits
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%arg0)
// CHECK: aten.view.dtype(%[[SUM]],
// CHECK: %[[OTHER:.*]] = spmd.all_reduce(%arg1)
// CHECK: aten.to.dtype(%[[OTHER]],
func.func @bits(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (tensor<4x6xi32>, tensor<4x6xi32>) {
  %int = cleave.constant(3 : i64) : i64
  %no = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = aten.view.dtype(%0, %int) : (tensor<4x6xf32>, i64) -> tensor<4x6xi32>
  %2 = spmd.all_reduce(%y) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = aten.to.dtype(%2, %int, %no, %no, %none) : (tensor<4x6xf32>, i64, i1, i1, none) -> tensor<4x6xi32>
  return %1, %3 : tensor<4x6xi32>, tensor<4x6xi32>
}

// All ranks take the same part: there is less to send behind it.
// CHECK-LABEL: func.func @same
// CHECK: %[[PART:.*]] = aten.narrow(%arg0,
// CHECK: spmd.all_reduce(%[[PART]])
func.func @same(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = aten.narrow(%0, %one, %three, %three) : (tensor<4x6xf32>, i64, i64, i64) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// A sum stays outside of the branch that uses it: only some ranks' programs might come by.
// CHECK-LABEL: func.func @branch
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%arg0)
// CHECK: cleave.if
// CHECK-NOT: spmd.all_reduce
// CHECK: aten.view(%[[SUM]],
// CHECK-NOT: spmd.all_reduce
func.func @branch(%x: tensor<4x6xf32>, %y: tensor<24xf32>, %c: i1) -> tensor<24xf32> {
  %sizes = cleave.constant([24]) : !cleave.list<i64>
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = cleave.if %c : tensor<24xf32> {
    %2 = aten.view(%0, %sizes) : (tensor<4x6xf32>, !cleave.list<i64>) -> tensor<24xf32>
    cleave.yield %2 : tensor<24xf32>
  } else {
    cleave.yield %y : tensor<24xf32>
  }
  return %1 : tensor<24xf32>
}

// Copies and orders in memory come behind the sum.
// CHECK-LABEL: func.func @copies
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%arg0)
// CHECK: aten.expand(%[[SUM]],
// CHECK: %[[OTHER:.*]] = spmd.all_reduce(%arg1)
// CHECK: aten.contiguous(%[[OTHER]],
func.func @copies(%x: tensor<4x1xf32>, %y: tensor<2x3x4x5xf32>) -> (tensor<4x64xf32>, tensor<2x3x4x5xf32>) {
  %sizes = cleave.constant([4, 64]) : !cleave.list<i64>
  %no = cleave.constant(false) : i1
  %last = cleave.constant(2) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = aten.expand(%0, %sizes, %no) : (tensor<4x1xf32>, !cleave.list<i64>, i1) -> tensor<4x64xf32>
  %2 = spmd.all_reduce(%y) : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = aten.contiguous(%2, %last) : (tensor<2x3x4x5xf32>, i64) -> tensor<2x3x4x5xf32>
  return %1, %3 : tensor<4x64xf32>, tensor<2x3x4x5xf32>
}

// Of the two sums alone no shape is known.
// CHECK-LABEL: func.func @widened
// CHECK: spmd.all_reduce(%arg0)
// CHECK: spmd.all_reduce(%arg1)
func.func @widened(%x: tensor<1x6xf32>, %y: tensor<1x6xf32>, %whole: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<1x6xf32>) -> tensor<1x6xf32>
  %1 = aten.add.Tensor(%0, %whole, %one) : (tensor<1x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  %2 = spmd.all_reduce(%y) : (tensor<1x6xf32>) -> tensor<1x6xf32>
  %3 = aten.add.Tensor(%1, %2, %one) : (tensor<4x6xf32>, tensor<1x6xf32>, i64) -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// A factor of one of three.
// CHECK-LABEL: func.func @scaled
// CHECK: spmd.all_reduce(%arg0)
// CHECK: spmd.all_reduce(%arg1)
func.func @scaled(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %whole: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %0 = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = aten.add.Tensor(%whole, %0, %three) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  %2 = spmd.all_reduce(%y) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = aten.add.Tensor(%1, %2, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
