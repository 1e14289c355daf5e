// RUN: cleave-opt %s --fold-sizes | FileCheck %s
// Does nothing when data, or more than an expression of sizes, decides a value.

!ids = tensor<?x?xi64, #cleave.layout<dims = ["batch", "seq"]>>

// CHECK-LABEL: func.func @data(
// CHECK: aten.item
func.func @data(%x: tensor<i64>) -> i64 {
  %0 = aten.item(%x) : (tensor<i64>) -> i64
  return %0 : i64
}

// CHECK-LABEL: func.func @data_dependent_size(
// CHECK: aten.nonzero
// CHECK: aten.size.int
func.func @data_dependent_size(%x: tensor<4xi64>) -> i64 {
  %zero = cleave.constant(0 : i64) : i64
  %0 = aten.nonzero(%x) : (tensor<4xi64>) -> !cleave.tensor
  %1 = aten.size.int(%0, %zero) : (!cleave.tensor, i64) -> i64
  return %1 : i64
}

// The larger of two sizes is no polynomial of them.
// CHECK-LABEL: func.func @maximum(
// CHECK: prim.max.int
func.func @maximum(%ids: !ids) -> i64 attributes {cleave.symbols = {batch = 4, seq = 5}} {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %batch = aten.size.int(%ids, %zero) : (!ids, i64) -> i64
  %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
  %0 = prim.max.int(%batch, %seq) : (i64, i64) -> i64
  return %0 : i64
}

// Nor is the double of a half that is rounded down.
// CHECK-LABEL: func.func @rounded(
// CHECK: cleave.size "(seq) floordiv 2"
// CHECK: aten.mul.int
func.func @rounded(%ids: !ids) -> i64 attributes {cleave.symbols = {batch = 4, seq = 5}} {
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
  %half = aten.floordiv.int(%seq, %two) : (i64, i64) -> i64
  %0 = aten.mul.int(%half, %two) : (i64, i64) -> i64
  return %0 : i64
}

// A comparison that holds at some sizes only.
// CHECK-LABEL: func.func @comparison(
// CHECK: aten.gt.int
func.func @comparison(%ids: !ids) -> i1 attributes {cleave.symbols = {batch = 4, seq = 5}} {
  %zero = cleave.constant(0 : i64) : i64
  %six = cleave.constant(6 : i64) : i64
  %batch = aten.size.int(%ids, %zero) : (!ids, i64) -> i64
  %0 = aten.gt.int(%batch, %six) : (i64, i64) -> i1
  return %0 : i1
}

// It differs between iterations.
// CHECK-LABEL: func.func @iterations(
// CHECK: cleave.loop
// CHECK: aten.mul.int
func.func @iterations(%n: i64) -> i64 {
  %three = cleave.constant(3 : i64) : i64
  %true = cleave.constant(true) : i1
  %0 = cleave.loop(%three, %true, %n) : (i64) -> i64 {
  ^bb0(%i: i64, %last: i64):
    %square = aten.mul.int(%i, %i) : (i64, i64) -> i64
    cleave.yield %true, %square : i1, i64
  }
  return %0 : i64
}

// A list of sizes that is appended to holds more than the operator put in.
// CHECK-LABEL: func.func @changed_list(
// CHECK: %[[L:.*]] = aten.size(
// CHECK: aten.append.t(%[[L]],
// CHECK: return %[[L]]
func.func @changed_list(%x: tensor<4x8xf32>) -> !cleave.list<i64> {
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.size(%x) : (tensor<4x8xf32>) -> !cleave.list<i64>
  %1 = aten.append.t(%0, %one) : (!cleave.list<i64>, i64) -> !cleave.list<i64>
  return %0 : !cleave.list<i64>
}

// The condition is the data's: zeros in its place would say false.
// CHECK-LABEL: func.func @condition(
// CHECK: aten.is_nonzero
func.func @condition(%x: tensor<i1>) -> i1 {
  %0 = aten.is_nonzero(%x) : (tensor<i1>) -> i1
  return %0 : i1
}

// A loop that only data ends is not known by its first iteration.
// CHECK-LABEL: func.func @unknown_end(
// CHECK: cleave.loop
// CHECK: aten.add.int
func.func @unknown_end(%x: tensor<i1>, %n: i64) -> i64 {
  %many = cleave.constant(9 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %true = cleave.constant(true) : i1
  %0 = cleave.loop(%many, %true, %n) : (i64) -> i64 {
  ^bb0(%i: i64, %last: i64):
    %next = aten.add.int(%i, %one) : (i64, i64) -> i64
    %again = aten.is_nonzero(%x) : (tensor<i1>) -> i1
    cleave.yield %again, %next : i1, i64
  }
  return %0 : i64
}

// A list to which something is appended that is not known, or not for certain, or not known how often.
// CHECK-LABEL: func.func @unknown_item(
// CHECK: aten.len.t
func.func @unknown_item(%x: tensor<4xi64>) -> i64 {
  %0 = aten.nonzero(%x) : (tensor<4xi64>) -> !cleave.tensor
  %list = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %1 = aten.append.t(%list, %0) : (!cleave.list<!cleave.tensor>, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %2 = aten.len.t(%list) : (!cleave.list<!cleave.tensor>) -> i64
  return %2 : i64
}

// CHECK-LABEL: func.func @unknown_branch(
// CHECK: aten.len.t
func.func @unknown_branch(%x: tensor<4xi64>, %c: i1) -> i64 {
  %list = cleave.list() : () -> !cleave.list<!cleave.tensor>
  cleave.if %c {
    %1 = aten.append.t(%list, %x) : (!cleave.list<!cleave.tensor>, tensor<4xi64>) -> !cleave.list<!cleave.tensor>
    cleave.yield
  } else {
    cleave.yield
  }
  %2 = aten.len.t(%list) : (!cleave.list<!cleave.tensor>) -> i64
  return %2 : i64
}

// CHECK-LABEL: func.func @unknown_trips(
// CHECK: aten.len.t
func.func @unknown_trips(%x: tensor<4xi64>, %n: i64) -> i64 {
  %list = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %true = cleave.constant(true) : i1
  cleave.loop(%n, %true) : () -> () {
  ^bb0(%i: i64):
    %1 = aten.append.t(%list, %x) : (!cleave.list<!cleave.tensor>, tensor<4xi64>) -> !cleave.list<!cleave.tensor>
    cleave.yield %true : i1
  }
  %2 = aten.len.t(%list) : (!cleave.list<!cleave.tensor>) -> i64
  return %2 : i64
}
