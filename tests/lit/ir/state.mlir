// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// What a module keeps from call to call: read where a request begins, updated where it ends.

// CHECK-LABEL: func.func @counts
// CHECK: %[[COUNT:.*]] = cleave.read_state "inner.count" from %{{.*}} : (tensor<f32>) -> tensor<f32>
// CHECK: %[[NEXT:.*]] = aten.add.Tensor(%[[COUNT]],
// CHECK: cleave.write_state "inner.count" %[[NEXT]] : tensor<f32>
func.func @counts(%x: tensor<f32>) -> tensor<f32> {
  %zero = cleave.param "inner.count" {role = "buffer"} : tensor<f32>
  %one = cleave.constant(1 : i64) : i64
  %count = cleave.read_state "inner.count" from %zero : (tensor<f32>) -> tensor<f32>
  %next = aten.add.Tensor(%count, %x, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  cleave.write_state "inner.count" %next : tensor<f32>
  return %next : tensor<f32>
}

// One whose shape changes, one that may be absent, and one that is no tensor.
// CHECK-LABEL: func.func @others
// CHECK: cleave.read_state "grows" from %{{.*}} : (tensor<0xf32>) -> !cleave.tensor
// CHECK: cleave.read_state "maybe" from %{{.*}} : (none) -> !cleave.optional<!cleave.tensor>
// CHECK: cleave.read_state "calls" from %{{.*}} : (i64) -> i64
func.func @others(%x: !cleave.tensor) -> !cleave.tensor {
  %empty = cleave.param "grows" {role = "buffer"} : tensor<0xf32>
  %none = cleave.constant(unit) : none
  %0 = cleave.constant(0 : i64) : i64
  %grows = cleave.read_state "grows" from %empty : (tensor<0xf32>) -> !cleave.tensor
  %maybe = cleave.read_state "maybe" from %none : (none) -> !cleave.optional<!cleave.tensor>
  %calls = cleave.read_state "calls" from %0 : (i64) -> i64
  %1 = aten.add.int(%calls, %calls) : (i64, i64) -> i64
  cleave.write_state "grows" %x : !cleave.tensor
  cleave.write_state "maybe" %grows : !cleave.tensor
  cleave.write_state "calls" %1 : i64
  return %grows : !cleave.tensor
}

// A row for each sample of the batch.
// CHECK-LABEL: func.func @rows
// CHECK: cleave.read_state "h" from %{{.*}} {batch_dim = 1 : i64} : (tensor<2x1xf32>) -> tensor<2x?xf32, #cleave.layout<dims = ["2", "batch"]>>
!rows = tensor<2x?xf32, #cleave.layout<dims = ["2", "batch"]>>
func.func @rows(%x: !rows) -> !rows attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<2x1xf32>
  %h = cleave.read_state "h" from %zeros {batch_dim = 1 : i64} : (tensor<2x1xf32>) -> !rows
  cleave.write_state "h" %x : !rows
  return %h : !rows
}
