// RUN: cleave-opt %s --split-input-file --strip-boundaries="observe=true keep=kept" | FileCheck %s
// What modules return is observed, at no cost: users take the value itself.

// Calls of one module are counted, whatever they are called in the path.
// CHECK-LABEL: func.func @calls(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: cleave.observe %[[R]] "h.act" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: %[[S:.*]] = aten.relu(%[[R]])
// CHECK-NEXT: cleave.observe %[[S]] "h.act" output 0 call 1 : tensor<2xf32>
// CHECK-NEXT: return %[[S]]
func.func @calls(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "h.act" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.relu(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = cleave.boundary %2 "h.act#1" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// A module that returns its child's result is nested in order.
// CHECK-LABEL: func.func @nested(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: cleave.observe %[[R]] "h.act" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: cleave.observe %[[R]] "h" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: return
func.func @nested(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "h.act" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = cleave.boundary %1 "h" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// A new value of what the identity gives would reach who takes what it was given.
// CHECK-LABEL: func.func @beside(
// CHECK: cleave.observe %{{.*}} "act" output 0 call 0 : tensor<2xf32>
// CHECK: cleave.observe %{{.*}} "identity" output 0 call 0 {read_only} : tensor<2xf32>
func.func @beside(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "act" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = cleave.boundary %1 "identity" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %3 = aten.mul.Tensor(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// So would one of what is detached.
// CHECK-LABEL: func.func @detached(
// CHECK: cleave.observe %{{.*}} "stop" output 0 call 0 {read_only} : tensor<2xf32>
func.func @detached(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.detach(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = cleave.boundary %1 "stop" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %3 = aten.mul.Tensor(%0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// Nothing of inputs and weights, of control flow, and of what is no tensor; what is kept stays, with its call.
// CHECK-LABEL: func.func @none(
// CHECK-NOT: cleave.observe
// CHECK: cleave.boundary %{{.*}} "kept" output 0 {call = 1 : i64}
// CHECK-NOT: cleave.observe
func.func @none(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<2xf32>
  %0 = cleave.boundary %x "input" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %w "weight" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = cleave.if %c : tensor<2xf32> {
    %3 = aten.relu(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %4 = cleave.boundary %3 "inside" output 0 : (tensor<2xf32>) -> tensor<2xf32>
    %5 = cleave.boundary %4 "kept" output 0 : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %5 : tensor<2xf32>
  } else {
    cleave.yield %1 : tensor<2xf32>
  }
  %6 = cleave.boundary %2 "kept" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}

// -----

// A path keeps all calls of its module.
// CHECK-LABEL: func.func @kept_calls(
// CHECK: cleave.boundary %{{.*}} "kept" output 0 :
// CHECK: cleave.boundary %{{.*}} "kept#2" output 0 {call = 1 : i64}
func.func @kept_calls(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "kept" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.tanh(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = cleave.boundary %2 "kept#2" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
