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

// Each is appended to, and the length differs before and after.
// CHECK-LABEL: func.func @changed_lists(
// CHECK-COUNT-2: cleave.list()
// CHECK: aten.len.t
// CHECK: aten.append.t
// CHECK: aten.len.t
func.func @changed_lists(%x: tensor<2xf32>) -> (i64, i64, !cleave.list<!cleave.tensor>) {
  %a = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %b = cleave.list() : () -> !cleave.list<!cleave.tensor>
  %0 = aten.len.t(%a) : (!cleave.list<!cleave.tensor>) -> i64
  %1 = aten.append.t(%a, %x) : (!cleave.list<!cleave.tensor>, tensor<2xf32>) -> !cleave.list<!cleave.tensor>
  %2 = aten.len.t(%a) : (!cleave.list<!cleave.tensor>) -> i64
  return %0, %2, %b : i64, i64, !cleave.list<!cleave.tensor>
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
