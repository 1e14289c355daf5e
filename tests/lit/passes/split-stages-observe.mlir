// RUN: cleave-opt %s --split-stages | FileCheck %s
// An observe goes to the stage that makes its value, and stays where it was among that stage's operations.

// CHECK-LABEL: func.func @chain(
// CHECK: cleave.stage 0(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: cleave.observe %[[R]] "act" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: cleave.observe %[[R]] "h" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: aten.neg(%[[R]])
// CHECK: cleave.stage 1(
// CHECK: %[[T:.*]] = aten.tanh
// CHECK-NEXT: cleave.observe %[[T]] "head" output 0 call 0 {declared} : tensor<2xf32>
// CHECK-NEXT: cleave.yield %[[T]]
func.func @chain(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "act" output 0 call 0 : tensor<2xf32>
  cleave.observe %0 "h" output 0 call 0 : tensor<2xf32>
  %1 = aten.neg(%0) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.tanh(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = cleave.boundary %2 "head" output 0 {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %3, %1 : tensor<2xf32>, tensor<2xf32>
}

// A later stage, which reads the value before the module returns it, would get an edited one.
// CHECK-LABEL: func.func @inside(
// CHECK: cleave.observe %{{.*}} "h" output 0 call 0 {read_only} : tensor<2xf32>
func.func @inside(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.neg(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "h" output 0 call 0 : tensor<2xf32>
  %2 = aten.tanh(%0) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}

// What several stages make is read where it is made first.
// CHECK-LABEL: func.func @repeated(
// CHECK: cleave.stage 0(
// CHECK: %[[P:.*]] = aten.arange
// CHECK-NEXT: cleave.observe %[[P]] "positions" output 0 call 0 {read_only} : tensor<2xi64>
// CHECK: cleave.stage 1(
// CHECK-NOT: cleave.observe
func.func @repeated(%x: tensor<2xf32>) -> tensor<2xf32> {
  %two = cleave.constant(2 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %none = cleave.constant(unit) : none
  %p = aten.arange(%two, %none, %none, %none, %none) : (i64, none, none, none, none) -> tensor<2xi64>
  cleave.observe %p "positions" output 0 call 0 : tensor<2xi64>
  %0 = aten.add.Tensor(%x, %p, %one) {cleave.stage_index = 0 : i64} : (tensor<2xf32>, tensor<2xi64>, i64) -> tensor<2xf32>
  %1 = aten.add.Tensor(%0, %p, %one) {cleave.stage_index = 1 : i64} : (tensor<2xf32>, tensor<2xi64>, i64) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// A declared value that others read, too, is an alias of its own, so that an edit reaches the module's readers alone.
// CHECK-LABEL: func.func @apart(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: %[[A:.*]] = aten.alias(%[[R]])
// CHECK-NEXT: cleave.observe %[[A]] "norm" output 0 call 0 {declared} : tensor<2xf32>
// CHECK-NEXT: aten.neg(%[[A]])
// CHECK-NEXT: %[[B:.*]] = aten.alias(%[[R]])
// CHECK-NEXT: cleave.observe %[[B]] "norm#2" output 0 call 1 {declared} : tensor<2xf32>
// CHECK-NEXT: aten.tanh(%[[B]])
func.func @apart(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "norm" output 0 {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.neg(%1) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = cleave.boundary %0 "norm#2" output 0 {call = 1 : i64, cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = aten.tanh(%3) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %2, %4 : tensor<2xf32>, tensor<2xf32>
}
