// RUN: cleave-opt %s --cse | FileCheck %s
// Does nothing when two equal calls do not give equal results.

// Random numbers are drawn twice.
// CHECK-LABEL: func.func @random(
// CHECK-COUNT-2: aten.rand_like
func.func @random(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %none = cleave.constant(unit) : none
  %0 = aten.rand_like(%x, %none, %none, %none, %none, %none)
      : (tensor<2xf32>, none, none, none, none, none) -> tensor<2xf32>
  %1 = aten.rand_like(%x, %none, %none, %none, %none, %none)
      : (tensor<2xf32>, none, none, none, none, none) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @dropout(
// CHECK-COUNT-2: aten.dropout
func.func @dropout(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %p = cleave.constant(0.1 : f64) : f64
  %true = cleave.constant(true) : i1
  %0 = aten.dropout(%x, %p, %true) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  %1 = aten.dropout(%x, %p, %true) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// A list that is appended to is not its equal, and is longer afterwards.
// CHECK-LABEL: func.func @changed_lists(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK: %[[A:.*]] = cleave.list()
// CHECK: %[[B:.*]] = cleave.list()
// CHECK: %[[BEFORE:.*]] = aten.len.t(%[[A]])
// CHECK: aten.append.t(%[[A]], %[[X]])
// CHECK: %[[AFTER:.*]] = aten.len.t(%[[A]])
// CHECK: return %[[BEFORE]], %[[AFTER]], %[[B]]
func.func @changed_lists(%x: tensor<2xf32>) -> (i64, i64, !cleave.list<!cleave.tensor>) {
  %a = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %b = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %0 = aten.len.t(%a) : (!cleave.list<!cleave.tensor>) -> i64
  %1 = aten.append.t(%a, %x) : (!cleave.list<!cleave.tensor>, tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %2 = aten.len.t(%a) : (!cleave.list<!cleave.tensor>) -> i64
  return %0, %2, %b : i64, i64, !cleave.list<!cleave.tensor>
}

// The same for lists that operators make, and where the change is far from them.
// CHECK-LABEL: func.func @changed_in_a_loop(
// CHECK-COUNT-2: aten.size(
// CHECK: cleave.loop
func.func @changed_in_a_loop(%x: tensor<2xf32>, %n: i64, %c: i1) -> (!cleave.list<i64>, !cleave.list<i64>) {
  %0 = aten.size(%x) : (tensor<2xf32>) -> !cleave.list<i64>
  %1 = aten.size(%x) : (tensor<2xf32>) -> !cleave.list<i64>
  %2 = cleave.loop(%n, %c, %0) : (!cleave.list<i64>) -> !cleave.list<i64> {
  ^bb0(%i: i64, %list: !cleave.list<i64>):
    %3 = aten.append.t(%list, %i) : (!cleave.list<i64>, i64) -> !cleave.list<i64>
    cleave.yield %c, %list : i1, !cleave.list<i64>
  }
  return %0, %1 : !cleave.list<i64>, !cleave.list<i64>
}

// Names tell weights apart, not types.
// CHECK-LABEL: func.func @weights(
// CHECK: cleave.param "a"
// CHECK: cleave.param "b"
func.func @weights() -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = cleave.param "a" {role = "parameter"} : tensor<2xf32>
  %1 = cleave.param "b" {role = "parameter"} : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
