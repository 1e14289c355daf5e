// RUN: cleave-opt %s --canonicalize | FileCheck %s
// Does nothing when an operation's result is not certain, or its effect is wanted.

// A list that is appended to does not hold what it was made with.
// CHECK-LABEL: func.func @changed_list(
// CHECK: %[[L:.*]] = cleave.list(
// CHECK: aten.append.t(%[[L]],
// CHECK: %[[ITEM:.*]] = aten.__getitem__.t(%[[L]],
// CHECK: %[[ITEMS:.*]]:2 = cleave.unpack %[[L]]
// CHECK: return %[[ITEM]], %[[ITEMS]]#1
func.func @changed_list(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %list = cleave.list(%a) : (tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %0 = aten.append.t(%list, %b) : (!cleave.list<!cleave.tensor>, tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %last = cleave.constant(-1 : i64) : i64
  %1 = aten.__getitem__.t(%list, %last) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2xf32>
  %2:2 = cleave.unpack %list : (!cleave.list<!cleave.tensor>) -> (tensor<2xf32>, tensor<2xf32>)
  return %1, %2#1 : tensor<2xf32>, tensor<2xf32>
}

// Two lists of the same constants that are appended to are two lists.
// CHECK-LABEL: func.func @two_changed_lists(
// CHECK: %[[A:.*]] = cleave.list()
// CHECK: %[[B:.*]] = cleave.list()
// CHECK: aten.append.t(%[[A]],
// CHECK: aten.append.t(%[[B]],
func.func @two_changed_lists(%n: i64) -> (!cleave.list<i64>, !cleave.list<i64>) {
  %a = cleave.list() : () -> !cleave.list<i64>
  %b = cleave.list() : () -> !cleave.list<i64>
  %0 = aten.append.t(%a, %n) : (!cleave.list<i64>, i64) -> !cleave.list<i64>
  %1 = aten.append.t(%b, %n) : (!cleave.list<i64>, i64) -> !cleave.list<i64>
  return %a, %b : !cleave.list<i64>, !cleave.list<i64>
}

// Nor does one that is appended to after it went through a tuple and a branch.
// CHECK-LABEL: func.func @changed_elsewhere(
// CHECK: cleave.list(
// CHECK: aten.len.t
func.func @changed_elsewhere(%c: i1, %n: i64) -> i64 {
  %list = cleave.list() : () -> !cleave.list<i64>
  %tuple = cleave.tuple(%list, %n) : (!cleave.list<i64>, i64) -> tuple<!cleave.list<i64>, i64>
  %0 = cleave.if %c : !cleave.list<i64> {
    %items:2 = cleave.unpack %tuple : (tuple<!cleave.list<i64>, i64>) -> (!cleave.list<i64>, i64)
    cleave.yield %items#0 : !cleave.list<i64>
  } else {
    cleave.yield %list : !cleave.list<i64>
  }
  %1 = aten.append.t(%0, %n) : (!cleave.list<i64>, i64) -> !cleave.list<i64>
  %2 = aten.len.t(%list) : (!cleave.list<i64>) -> i64
  return %2 : i64
}

// Training drops.
// CHECK-LABEL: func.func @training(
// CHECK: aten.dropout
func.func @training(%x: tensor<2xf32>) -> tensor<2xf32> {
  %p = cleave.constant(0.1 : f64) : f64
  %true = cleave.constant(true) : i1
  %0 = aten.dropout(%x, %p, %true) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// It throws, which the program shall do when it runs.
// CHECK-LABEL: func.func @throws()
// CHECK: aten.floordiv.int
func.func @throws() -> i64 {
  %one = cleave.constant(1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %0 = aten.floordiv.int(%one, %zero) : (i64, i64) -> i64
  return %0 : i64
}

// CHECK-LABEL: func.func @out_of_range(
// CHECK: aten.__getitem__.t
func.func @out_of_range(%a: tensor<2xf32>) -> tensor<2xf32> {
  %list = cleave.list(%a) : (tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.__getitem__.t(%list, %one) : (!cleave.list<!cleave.tensor>, i64) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Tensors are made when the program runs.
// CHECK-LABEL: func.func @tensors()
// CHECK: aten.arange
func.func @tensors() -> tensor<4xi64> {
  %four = cleave.constant(4 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.arange(%four, %none, %none, %none, %none) : (i64, none, none, none, none) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Effects that nobody uses the result of.
// CHECK-LABEL: func.func @effects(
// CHECK: aten.manual_seed
// CHECK: prim.Print
// CHECK: aten.relu_
// CHECK: prim.RaiseException
func.func @effects(%x: tensor<2xf32>) {
  %zero = cleave.constant(0 : i64) : i64
  %text = cleave.constant("no") : !cleave.str
  %none = cleave.constant(unit) : none
  aten.manual_seed(%zero) : (i64) -> ()
  prim.Print(%text) : (!cleave.str) -> ()
  %0 = aten.relu_(%x) : (tensor<2xf32>) -> tensor<2xf32>
  prim.RaiseException(%text, %none) : (!cleave.str, none) -> ()
  return
}

// A cast, a copy that is asked for, a slice that leaves something out, and types that are not known yet.
// CHECK-LABEL: func.func @casts_and_slices(
// CHECK-COUNT-3: aten.to.dtype
// CHECK: aten.slice.Tensor
func.func @casts_and_slices(%x: tensor<4x8xf32>, %y: !cleave.tensor)
    -> (tensor<4x8xf64>, tensor<4x8xf32>, !cleave.tensor, tensor<3x8xf32>) {
  %f32 = cleave.constant(6 : i64) : i64
  %f64 = cleave.constant(7 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %false = cleave.constant(false) : i1
  %true = cleave.constant(true) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.to.dtype(%x, %f64, %false, %false, %none) : (tensor<4x8xf32>, i64, i1, i1, none) -> tensor<4x8xf64>
  %1 = aten.to.dtype(%x, %f32, %false, %true, %none) : (tensor<4x8xf32>, i64, i1, i1, none) -> tensor<4x8xf32>
  %2 = aten.to.dtype(%y, %f32, %false, %false, %none) : (!cleave.tensor, i64, i1, i1, none) -> !cleave.tensor
  %3 = aten.slice.Tensor(%x, %zero, %one, %end, %one) : (tensor<4x8xf32>, i64, i64, i64, i64) -> tensor<3x8xf32>
  return %0, %1, %2, %3 : tensor<4x8xf64>, tensor<4x8xf32>, !cleave.tensor, tensor<3x8xf32>
}

// What a module returned can be captured, also where the model has no use for it.
// CHECK-LABEL: func.func @captured(
// CHECK: %[[Y:.*]] = aten.relu
// CHECK: cleave.boundary %[[Y]] "head" output 0
func.func @captured(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "head" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}

// A state that nothing reads is still written.
// CHECK-LABEL: func.func @unread_state(
// CHECK: cleave.read_state "calls"
// CHECK: cleave.write_state "calls"
func.func @unread_state(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zeros = cleave.param "calls" {role = "buffer"} : tensor<2xf32>
  %calls = cleave.read_state "calls" from %zeros : (tensor<2xf32>) -> tensor<2xf32>
  cleave.write_state "calls" %x : tensor<2xf32>
  return %x : tensor<2xf32>
}
