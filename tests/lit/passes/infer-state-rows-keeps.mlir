// RUN: cleave-opt %s --infer-state-rows | FileCheck %s
// States keep their types where rows would change what the function gives, or would depend on each other.
// CHECK-NOT: batch_dim

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>

// One for the whole batch.
// CHECK-LABEL: func.func @counts
func.func @counts(%x: !x) -> !cleave.tensor attributes {cleave.symbols = {batch = 4 : i64}} {
  %zero = cleave.param "n" {role = "buffer"} : tensor<f32>
  %one = cleave.constant(1 : i64) : i64
  %n = cleave.read_state "n" from %zero : (tensor<f32>) -> tensor<f32>
  %0 = aten.add.Scalar(%n, %one, %one) : (tensor<f32>, i64, i64) -> !cleave.tensor
  cleave.write_state "n" %0 : !cleave.tensor
  %1 = aten.mul.Tensor(%x, %0) : (!x, !cleave.tensor) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// Of one sample, whether the state has a row for it or is one for all cannot be told.
// CHECK-LABEL: func.func @one_sample
func.func @one_sample(%x: !x) -> !cleave.tensor attributes {cleave.symbols = {batch = 1 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = aten.add.Tensor(%h, %x, %one) : (tensor<1x8xf32>, !x, i64) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  return %0 : !cleave.tensor
}

// Each row would depend on all of them.
// CHECK-LABEL: func.func @mixes_rows
func.func @mixes_rows(%x: !x) -> !cleave.tensor attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<4x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.cumsum(%h, %zero, %none) : (tensor<4x8xf32>, i64, none) -> !cleave.tensor
  %1 = aten.add.Tensor(%0, %x, %one) : (!cleave.tensor, !x, i64) -> !cleave.tensor
  cleave.write_state "h" %1 : !cleave.tensor
  return %1 : !cleave.tensor
}

// The first request would give four rows in place of one.
// CHECK-LABEL: func.func @gives_what_it_began_with
func.func @gives_what_it_began_with(%x: !x) -> (!cleave.tensor, !cleave.tensor)
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = aten.add.Tensor(%h, %x, %one) : (tensor<1x8xf32>, !x, i64) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  %1 = aten.tanh(%h) : (tensor<1x8xf32>) -> !cleave.tensor
  return %0, %1 : !cleave.tensor, !cleave.tensor
}

// One of two states has no rows.
// CHECK-LABEL: func.func @one_of_two
func.func @one_of_two(%x: !x) -> !cleave.tensor attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %other = cleave.param "g" {role = "buffer"} : tensor<8xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %g = cleave.read_state "g" from %other : (tensor<8xf32>) -> tensor<8xf32>
  %0 = aten.add.Tensor(%h, %x, %one) : (tensor<1x8xf32>, !x, i64) -> !cleave.tensor
  %1 = aten.tanh(%g) : (tensor<8xf32>) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  cleave.write_state "g" %1 : !cleave.tensor
  return %0 : !cleave.tensor
}
