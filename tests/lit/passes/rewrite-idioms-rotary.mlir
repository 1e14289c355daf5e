// RUN: cleave-opt %s --rewrite-idioms | FileCheck %s
// Rotary positions: the sign goes to the sines, which layers share.

// CHECK-LABEL: func.func @rotary(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x16x8xf32>, %[[COS:.*]]: tensor<1x1x16x8xf32>, %[[SIN:.*]]: tensor<1x1x16x8xf32>)
// CHECK-DAG: %[[HALF:.*]] = cleave.constant([4]) : !cleave.list<i64>
// CHECK-DAG: %[[LAST:.*]] = cleave.constant([-1]) : !cleave.list<i64>
// CHECK: %[[STRAIGHT:.*]] = aten.mul.Tensor(%[[X]], %[[COS]])
// CHECK: %[[LOWER:.*]] = aten.slice.Tensor(%[[SIN]],
// CHECK: %[[UPPER:.*]] = aten.slice.Tensor(%[[SIN]],
// CHECK: %[[NEG:.*]] = aten.neg(%[[LOWER]])
// CHECK: %[[PARTS:.*]] = cleave.list(%[[NEG]], %[[UPPER]])
// CHECK: %[[SIGNED:.*]] = aten.cat(%[[PARTS]],
// CHECK: %[[ROLLED:.*]] = aten.roll(%[[X]], %[[HALF]], %[[LAST]])
// CHECK: %[[Y:.*]] = aten.addcmul(%[[STRAIGHT]], %[[ROLLED]], %[[SIGNED]],
// CHECK-NEXT: return %[[Y]]
func.func @rotary(%x: tensor<2x4x16x8xf32>, %cos: tensor<1x1x16x8xf32>, %sin: tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %four = cleave.constant(4 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %dim = cleave.constant(3 : i64) : i64
  %0 = aten.mul.Tensor(%x, %cos) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = aten.slice.Tensor(%x, %dim, %zero, %four, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %2 = aten.slice.Tensor(%x, %dim, %four, %end, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %3 = aten.neg(%2) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %4 = cleave.list(%3, %1) : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> !cleave.list<!cleave.tensor>
  %5 = aten.cat(%4, %last) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2x4x16x8xf32>
  %6 = aten.mul.Tensor(%5, %sin) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %7 = aten.add.Tensor(%0, %6, %one) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, i64) -> tensor<2x4x16x8xf32>
  return %7 : tensor<2x4x16x8xf32>
}

// The other half negated turns the other way.
// CHECK-LABEL: func.func @other_half(
// CHECK-NOT: aten.roll
func.func @other_half(%x: tensor<2x4x16x8xf32>, %cos: tensor<1x1x16x8xf32>, %sin: tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %four = cleave.constant(4 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %dim = cleave.constant(3 : i64) : i64
  %0 = aten.mul.Tensor(%x, %cos) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = aten.slice.Tensor(%x, %dim, %zero, %four, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %2 = aten.slice.Tensor(%x, %dim, %four, %end, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %3 = aten.neg(%1) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %4 = cleave.list(%3, %2) : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> !cleave.list<!cleave.tensor>
  %5 = aten.cat(%4, %last) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2x4x16x8xf32>
  %6 = aten.mul.Tensor(%5, %sin) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %7 = aten.add.Tensor(%0, %6, %one) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, i64) -> tensor<2x4x16x8xf32>
  return %7 : tensor<2x4x16x8xf32>
}

// CHECK-LABEL: func.func @taken(
// CHECK-NOT: aten.roll
func.func @taken(%x: tensor<2x4x16x8xf32>, %cos: tensor<1x1x16x8xf32>, %sin: tensor<1x1x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %four = cleave.constant(4 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %dim = cleave.constant(3 : i64) : i64
  %0 = aten.mul.Tensor(%x, %cos) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = aten.slice.Tensor(%x, %dim, %zero, %four, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %2 = aten.slice.Tensor(%x, %dim, %four, %end, %one) : (tensor<2x4x16x8xf32>, i64, i64, i64, i64) -> tensor<2x4x16x4xf32>
  %3 = aten.neg(%2) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %4 = cleave.list(%3, %1) : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> !cleave.list<!cleave.tensor>
  %5 = aten.cat(%4, %last) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2x4x16x8xf32>
  %6 = aten.mul.Tensor(%5, %sin) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %7 = aten.add.Tensor(%0, %6, %one) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, i64) -> tensor<2x4x16x8xf32>
  return %7, %5 : tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>
}
