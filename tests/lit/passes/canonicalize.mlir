// RUN: cleave-opt %s --canonicalize | FileCheck %s
// Scalar arithmetic on constants is done by calling the operator itself.

// CHECK-LABEL: func.func @scalars()
// CHECK: %[[SIX:.*]] = cleave.constant(6 : i64) : i64
// CHECK-NEXT: return %[[SIX]]
func.func @scalars() -> i64 {
  %13 = cleave.constant(13 : i64) : i64
  %2 = cleave.constant(2 : i64) : i64
  %0 = aten.floordiv.int(%13, %2) : (i64, i64) -> i64
  return %0 : i64
}

// CHECK-LABEL: func.func @comparison()
// CHECK: %[[TRUE:.*]] = cleave.constant(true) : i1
// CHECK-NEXT: return %[[TRUE]]
func.func @comparison() -> i1 {
  %2 = cleave.constant(2 : i64) : i64
  %3 = cleave.constant(3 : i64) : i64
  %0 = aten.lt.int(%2, %3) : (i64, i64) -> i1
  return %0 : i1
}

// CHECK-LABEL: func.func @is_none()
// CHECK: cleave.constant(true) : i1
// CHECK-NOT: aten.__is__
func.func @is_none() -> i1 {
  %none = cleave.constant(unit) : none
  %0 = aten.__is__(%none, %none) : (none, none) -> i1
  return %0 : i1
}

// CHECK-LABEL: func.func @format()
// CHECK: cleave.constant("7 of [1, 2]") : !cleave.str
// CHECK-NOT: aten.format
func.func @format() -> !cleave.str {
  %text = cleave.constant("{} of {}") : !cleave.str
  %7 = cleave.constant(7 : i64) : i64
  %list = cleave.constant([1, 2]) : !cleave.list<i64>
  %0 = aten.format(%text, %7, %list) : (!cleave.str, i64, !cleave.list<i64>) -> !cleave.str
  return %0 : !cleave.str
}

// CHECK-LABEL: func.func @length()
// CHECK: cleave.constant(3 : i64) : i64
// CHECK-NOT: aten.len
func.func @length() -> i64 {
  %list = cleave.constant([5, 6, 7]) : !cleave.list<i64>
  %0 = aten.len.t(%list) : (!cleave.list<i64>) -> i64
  return %0 : i64
}

// A list of constants is a constant.
// CHECK-LABEL: func.func @constant_list()
// CHECK: cleave.constant([2, 3]) : !cleave.list<i64>
// CHECK-NOT: cleave.list(
func.func @constant_list() -> !cleave.list<i64> {
  %2 = cleave.constant(2 : i64) : i64
  %3 = cleave.constant(3 : i64) : i64
  %0 = cleave.list(%2, %3) : (i64, i64) -> !cleave.list<i64>
  return %0 : !cleave.list<i64>
}

// Items are picked from lists and tuples that are made in sight, counted from the end where negative.
// CHECK-LABEL: func.func @items(
// CHECK-SAME: %[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<2xf32>)
// CHECK-NEXT: return %[[B]], %[[A]], %[[A]], %[[B]]
func.func @items(%a: tensor<2xf32>, %b: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %list = cleave.list(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %tuple = cleave.tuple(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  %last = cleave.constant(-1 : i64) : i64
  %first = cleave.constant(0 : i64) : i64
  %0 = aten.__getitem__.t(%list, %last) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2xf32>
  %1 = prim.TupleIndex(%tuple, %first) : (tuple<tensor<2xf32>, tensor<2xf32>>, i64) -> tensor<2xf32>
  %2:2 = cleave.unpack %list : (!cleave.list<!cleave.tensor>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0, %1, %2#0, %2#1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @unpacked_constant()
// CHECK-DAG: %[[ONE:.*]] = cleave.constant(1 : i64) : i64
// CHECK-DAG: %[[TWO:.*]] = cleave.constant(2 : i64) : i64
// CHECK: return %[[ONE]], %[[TWO]]
func.func @unpacked_constant() -> (i64, i64) {
  %list = cleave.constant([1, 2]) : !cleave.list<i64>
  %0:2 = cleave.unpack %list : (!cleave.list<i64>) -> (i64, i64)
  return %0#0, %0#1 : i64, i64
}

// What passes its operand on unchanged goes: dropout outside of training and of nothing, alias.
// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identities(%x: tensor<2xf32>) -> tensor<2xf32> {
  %p = cleave.constant(0.1 : f64) : f64
  %false = cleave.constant(false) : i1
  %0 = aten.dropout(%x, %p, %false) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  %1 = aten.alias(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %zero = cleave.constant(0.0 : f64) : f64
  %true = cleave.constant(true) : i1
  %2 = aten.dropout(%1, %zero, %true) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// Nobody uses it: pure operators, weights and sizes go, in regions too.
// CHECK-LABEL: func.func @dead_code(
// CHECK-NEXT: return
func.func @dead_code(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<2xf32>
  %n = cleave.size "batch"
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.add.Tensor(%x, %w, %one) : (tensor<2xf32>, tensor<2xf32>, i64) -> tensor<2xf32>
  %1 = cleave.if %c : tensor<2xf32> {
    cleave.yield %0 : tensor<2xf32>
  } else {
    cleave.yield %x : tensor<2xf32>
  }
  return %x : tensor<2xf32>
}

// Casts to the dtype that is there, and slices of everything.
// CHECK-LABEL: func.func @nothing(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @nothing(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %f32 = cleave.constant(6 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.to.dtype(%x, %f32, %false, %false, %none) : (tensor<4x8xf32>, i64, i1, i1, none) -> tensor<4x8xf32>
  %1 = aten.slice.Tensor(%x, %zero, %zero, %end, %one) : (tensor<4x8xf32>, i64, i64, i64, i64) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A branch whose condition is known is no branch.
// CHECK-LABEL: func.func @known_branch(
// CHECK-NEXT: %[[Y:.*]] = aten.tanh
// CHECK-NEXT: return %[[Y]]
func.func @known_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %false = cleave.constant(false) : i1
  %0 = cleave.if %false : tensor<4xf32> {
    %1 = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %1 : tensor<4xf32>
  } else {
    %2 = aten.tanh(%x) : (tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// What both branches give is no result of the branch.
// CHECK-LABEL: func.func @same_yields(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK: return %[[X]]
func.func @same_yields(%x: tensor<4xf32>, %often: i1) -> tensor<4xf32> {
  %0 = cleave.if %often : tensor<4xf32> {
    cleave.yield %x : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
