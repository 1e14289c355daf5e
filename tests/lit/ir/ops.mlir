// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// Every operation of the dialect reads back what it printed.

// CHECK-LABEL: func.func @values(
func.func @values(%x: tensor<4x8xf32>, %n: i64) -> tensor<4x8xf32> {
  // CHECK: %[[W:.*]] = cleave.param "wte.weight" {aliases = ["head.weight"], role = "parameter"} : tensor<50x8xf32>
  %w = cleave.param "wte.weight" {aliases = ["head.weight"], role = "parameter"} : tensor<50x8xf32>
  // CHECK: cleave.param "wpe.position_ids" {role = "buffer"} : tensor<1x8xi64>
  %b = cleave.param "wpe.position_ids" {role = "buffer"} : tensor<1x8xi64>
  // CHECK: cleave.param "constants.0" {integers = array<i64: 12>, role = "constant"} : tensor<i64>
  %c = cleave.param "constants.0" {role = "constant", integers = array<i64: 12>} : tensor<i64>
  // CHECK: cleave.param "constants.1" {number = 5.000000e-01 : f64, role = "constant"} : tensor<f32>
  %scalar = cleave.param "constants.1" {role = "constant", number = 0.5 : f64} : tensor<f32>
  // CHECK: cleave.param "late" {role = "buffer"} : !cleave.tensor
  %late = cleave.param "late" {role = "buffer"} : !cleave.tensor

  // CHECK: cleave.constant(-1 : i64) : i64
  %minus = cleave.constant(-1 : i64) : i64
  // CHECK: cleave.constant(true) : i1
  %true = cleave.constant(true) : i1
  // CHECK: cleave.constant(1.250000e-01 : f64) : f64
  %eighth = cleave.constant(0.125 : f64) : f64
  // CHECK: cleave.constant(unit) : none
  %none = cleave.constant(unit) : none
  // CHECK: cleave.constant(unit) : !cleave.optional<i64>
  %absent = cleave.constant(unit) : !cleave.optional<i64>
  // CHECK: cleave.constant(3 : i64) : !cleave.optional<i64>
  %present = cleave.constant(3 : i64) : !cleave.optional<i64>
  // CHECK: cleave.constant("gelu \22tanh\22") : !cleave.str
  %text = cleave.constant("gelu \22tanh\22") : !cleave.str
  // CHECK: cleave.constant("cuda:0") : !cleave.device
  %device = cleave.constant("cuda:0") : !cleave.device
  // CHECK: cleave.constant(2.000000e+00 : f64) : !cleave.number
  %number = cleave.constant(2.0 : f64) : !cleave.number
  // CHECK: cleave.constant([1, 2]) : !cleave.list<i64>
  %ints = cleave.constant([1, 2]) : !cleave.list<i64>
  // CHECK: cleave.constant([]) : !cleave.list<f64>
  %nothing = cleave.constant([]) : !cleave.list<f64>
  // CHECK: cleave.constant([1, "two"]) : tuple<i64, !cleave.str>
  %pair = cleave.constant([1, "two"]) : tuple<i64, !cleave.str>
  // CHECK: cleave.constant({{\[}}[1], []]) : !cleave.list<!cleave.list<i64>>
  %nested = cleave.constant([[1], []]) : !cleave.list<!cleave.list<i64>>

  // CHECK: cleave.size "12*batch + 1"
  %size = cleave.size "12*batch + 1"
  // CHECK: cleave.size "(seq + 1) floordiv 2"
  %half = cleave.size "(seq + 1) floordiv 2"

  // CHECK: %[[L:.*]] = cleave.list(%{{.*}}, %{{.*}}) : (i64, i64) -> !cleave.list<i64>
  %list = cleave.list(%n, %size) : (i64, i64) -> !cleave.list<i64>
  // CHECK: cleave.list() : () -> !cleave.list<!cleave.tensor>
  %empty = cleave.list() : () -> !cleave.list<!cleave.tensor>
  // CHECK: %[[T:.*]] = cleave.tuple(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, i64) -> tuple<tensor<4x8xf32>, i64>
  %tuple = cleave.tuple(%x, %n) : (tensor<4x8xf32>, i64) -> tuple<tensor<4x8xf32>, i64>
  // CHECK: cleave.dict(%{{.*}}, %{{.*}}) : (!cleave.str, i64) -> !cleave.dict<!cleave.str, i64>
  %dict = cleave.dict(%text, %n) : (!cleave.str, i64) -> !cleave.dict<!cleave.str, i64>
  // CHECK: cleave.unpack %[[L]] : (!cleave.list<i64>) -> (i64, i64)
  %items:2 = cleave.unpack %list : (!cleave.list<i64>) -> (i64, i64)
  // CHECK: cleave.unpack %[[T]] : (tuple<tensor<4x8xf32>, i64>) -> (tensor<4x8xf32>, i64)
  %parts:2 = cleave.unpack %tuple : (tuple<tensor<4x8xf32>, i64>) -> (tensor<4x8xf32>, i64)
  // CHECK: cleave.boundary %{{.*}} "transformer.h.3#1" output 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = cleave.boundary %parts#0 "transformer.h.3#1" output 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @regions(
func.func @regions(%x: tensor<4xf32>, %c: i1, %n: i64) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: cleave.if %{{.*}} : tensor<4xf32> {
  // CHECK:   cleave.yield %{{.*}} : tensor<4xf32>
  // CHECK: } else {
  // CHECK:   cleave.yield %{{.*}} : tensor<4xf32>
  %a = cleave.if %c : tensor<4xf32> {
    %r = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %r : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  // An if for its effects alone has no results.
  // CHECK: cleave.if %{{.*}} {
  // CHECK:   cleave.yield
  // CHECK: } else {
  cleave.if %c {
    cleave.yield
  } else {
    cleave.yield
  }
  // CHECK: cleave.loop(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ^bb0(%{{.*}}: i64, %{{.*}}: tensor<4xf32>):
  // CHECK:   cleave.yield %{{.*}}, %{{.*}} : i1, tensor<4xf32>
  %b = cleave.loop(%n, %c, %a) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %carried: tensor<4xf32>):
    %t = aten.tanh(%carried) : (tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %c, %t : i1, tensor<4xf32>
  }
  // CHECK: cleave.stage 0(%{{.*}}) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: ^bb0(%{{.*}}: tensor<4xf32>):
  // CHECK:   cleave.yield %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>
  %s:2 = cleave.stage 0(%b) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%inside: tensor<4xf32>):
    %t = aten.tanh(%inside) : (tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %inside, %t : tensor<4xf32>, tensor<4xf32>
  }
  return %s#0, %s#1 : tensor<4xf32>, tensor<4xf32>
}
