// RUN: cleave-opt %s --infer-state-rows | FileCheck %s
// A state gets a row for each sample where the function, with such rows, runs on parts of the batch.

// The initial value is that of every sample.
// CHECK-LABEL: func.func @one_row
// CHECK: cleave.read_state "h" from %{{.*}} {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @one_row(%x: !x) -> !cleave.tensor attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = aten.add.Tensor(%h, %x, %one) : (tensor<1x8xf32>, !x, i64) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  return %0 : !cleave.tensor
}

// As many rows as the batch of the example inputs, in another dimension than the first.
// CHECK-LABEL: func.func @rows_of_the_example
// CHECK: cleave.read_state "h" from %{{.*}} {batch_dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x?xf32, #cleave.layout<dims = ["8", "batch"]>>
func.func @rows_of_the_example(%x: tensor<8x?xf32, #cleave.layout<dims = ["8", "batch"]>>) -> !cleave.tensor
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<8x4xf32>
  %h = cleave.read_state "h" from %zeros : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %0 = aten.mul.Tensor(%h, %x) : (tensor<8x4xf32>, tensor<8x?xf32, #cleave.layout<dims = ["8", "batch"]>>) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  return %0 : !cleave.tensor
}

// Two dimensions have the batch's size: the second one is the batch.
// CHECK-LABEL: func.func @two_dimensions_of_one_size
// CHECK: cleave.read_state "h" from %{{.*}} {batch_dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x?xf32
func.func @two_dimensions_of_one_size(%x: tensor<4x?xf32, #cleave.layout<dims = ["4", "batch"]>>) -> !cleave.tensor
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<4x4xf32>
  %h = cleave.read_state "h" from %zeros : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = aten.mul.Tensor(%h, %x) : (tensor<4x4xf32>, tensor<4x?xf32, #cleave.layout<dims = ["4", "batch"]>>) -> !cleave.tensor
  cleave.write_state "h" %0 : !cleave.tensor
  return %0 : !cleave.tensor
}
