// RUN: cleave-opt %s --split-stages | FileCheck %s
// Each stage's operations move into a cleave.stage; its operands and results are the traffic.

// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[H:.*]] = cleave.stage 0(%[[X]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2xf32>):
// CHECK-NEXT:   %[[R:.*]] = aten.relu(%[[A]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:   cleave.yield %[[R]]
// CHECK: %[[Y:.*]] = cleave.stage 1(%[[H]])
// CHECK-NEXT: ^bb0(%[[B:.*]]: tensor<2xf32>):
// CHECK-NEXT:   %[[T:.*]] = aten.tanh(%[[B]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:   cleave.yield %[[T]]
// CHECK: return %[[Y]]
func.func @chain(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// A value that skips a stage is taken from its maker, not passed on; the request's input goes to whoever uses it.
// CHECK-LABEL: func.func @skip(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>)
// CHECK: %[[A:.*]] = cleave.stage 0(%[[X]])
// CHECK: %[[B:.*]] = cleave.stage 1(%[[A]])
// CHECK: %[[C:.*]] = cleave.stage 2(%[[A]], %[[B]], %[[X]])
// CHECK: return %[[C]]
func.func @skip(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.mul.Tensor(%0, %1) {cleave.stage_index = 2 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = aten.mul.Tensor(%2, %x) {cleave.stage_index = 2 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// A value is sent once however often it is used, and an early result is the early stage's.
// CHECK-LABEL: func.func @results(
// CHECK: %[[A:.*]] = cleave.stage 0(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: %[[B:.*]] = cleave.stage 1(%[[A]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: return %[[B]], %[[A]], %[[A]]
func.func @results(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.mul.Tensor(%0, %0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1, %0, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// A tied weight is in both stages, and so is what costs nothing to make again.
// CHECK-LABEL: func.func @tied_weights(
// CHECK-NOT: cleave.param
// CHECK: cleave.stage 0(
// CHECK-DAG:   cleave.param "wte" {aliases = ["head"], role = "parameter"}
// CHECK-DAG:   aten.arange
// CHECK: cleave.stage 1(%{{.*}}) : (tensor<2xf32>)
// CHECK-DAG:   cleave.param "wte" {aliases = ["head"], role = "parameter"}
// CHECK-DAG:   aten.arange
func.func @tied_weights(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = cleave.param "wte" {aliases = ["head"], role = "parameter"} : tensor<2xf32>
  %two = cleave.constant(2 : i64) : i64
  %none = cleave.constant(unit) : none
  %positions = aten.arange(%two, %none, %none, %none, %none) : (i64, none, none, none, none) -> tensor<2xi64>
  %0 = aten.mul.Tensor(%x, %w) {cleave.stage_index = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.mul.Tensor(%0, %positions) {cleave.stage_index = 0 : i64} : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  %2 = aten.mul.Tensor(%1, %w) {cleave.stage_index = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = aten.mul.Tensor(%2, %positions) {cleave.stage_index = 1 : i64} : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// What a region uses from outside is an input of its stage.
// CHECK-LABEL: func.func @regions(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[C:.*]]: i1)
// CHECK: %[[H:.*]] = cleave.stage 0(%[[X]])
// CHECK: cleave.stage 1(%[[C]], %[[H]])
// CHECK-NEXT: ^bb0(%[[CONDITION:.*]]: i1, %[[INSIDE:.*]]: tensor<2xf32>):
// CHECK: cleave.if %[[CONDITION]]
// CHECK: aten.tanh(%[[INSIDE]])
func.func @regions(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.if %c : tensor<2xf32> attributes {cleave.stage_index = 1 : i64} {
    %2 = aten.tanh(%0) : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %2 : tensor<2xf32>
  } else {
    cleave.yield %0 : tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @loops(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[N:.*]]: i64)
// CHECK: %[[H:.*]] = cleave.stage 0(%[[X]])
// CHECK: cleave.stage 1(%[[N]], %[[H]])
// CHECK: cleave.loop(
func.func @loops(%x: tensor<2xf32>, %n: i64) -> tensor<2xf32> {
  %true = cleave.constant(true) : i1
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.loop(%n, %true, %0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%i: i64, %carried: tensor<2xf32>):
    %2 = aten.mul.Tensor(%carried, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %true, %2 : i1, tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}

// An input that is passed through and a constant are made by the last stage.
// CHECK-LABEL: func.func @passed_through(
// CHECK: cleave.stage 0(
// CHECK: %[[R:.*]]:3 = cleave.stage 1(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, i64)
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @passed_through(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, i64) {
  %n = cleave.constant(2 : i64) : i64
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %x, %n : tensor<2xf32>, tensor<2xf32>, i64
}

// A state takes its new value when nothing reads it any more.
// CHECK-LABEL: func.func @state(
// CHECK: cleave.stage 0
// CHECK: %[[S:.*]] = cleave.read_state "h"
// CHECK-NEXT: %[[NEW:.*]] = aten.tanh(%[[S]])
// CHECK-NEXT: %[[R:.*]] = aten.relu(%[[NEW]])
// CHECK-NEXT: cleave.write_state "h" %[[NEW]]
// CHECK-NEXT: cleave.yield %[[R]]
func.func @state(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = cleave.read_state "h" from %x {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.tanh(%0) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  cleave.write_state "h" %1 {cleave.stage_index = 0 : i64} : tensor<2xf32>
  %2 = aten.relu(%1) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
