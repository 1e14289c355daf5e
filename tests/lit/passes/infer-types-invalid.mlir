// RUN: cleave-opt %s --infer-types --verify-diagnostics --split-input-file
// A dimension that was declared dynamic but is fixed by the model is reported where it is fixed.

!ids = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @fixed_by_view(%x: !ids) -> !cleave.tensor attributes {cleave.symbols = {batch = 4}} {
  %sizes = cleave.constant([4, 8]) : !cleave.list<i64>
  // expected-error-re @below {{aten.view fails at batch={{[0-9]+}} (shape '[4, 8]' is invalid for input of size {{[0-9]+}}) but not at the traced sizes; the model fixes batch there: name it at each input that has it, leave it out of --dynamic, or trace a model that takes it from its input}}
  %0 = aten.view(%x, %sizes) : (!ids, !cleave.list<i64>) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// A table of positions that was sliced to the traced length.
!hidden = tensor<?x?x8xf32, #cleave.layout<dims = ["batch", "seq", "8"]>>
func.func @fixed_by_table(%x: !hidden) -> !cleave.tensor attributes {cleave.symbols = {batch = 2, seq = 6}} {
  %table = cleave.param "positions" {role = "buffer"} : tensor<1x6x8xf32>
  %one = cleave.constant(1 : i64) : i64
  // expected-error-re @below {{aten.add.Tensor fails at batch={{[0-9]+}}, seq={{[0-9]+}} (The size of tensor a ({{[0-9]+}}) must match the size of tensor b (6) at non-singleton dimension 1) but not at the traced sizes}}
  %0 = aten.add.Tensor(%x, %table, %one) : (!hidden, tensor<1x6x8xf32>, i64) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// What always runs must work at the traced sizes.
func.func @fails_at_the_example(%x: tensor<5xf32>) -> !cleave.tensor {
  %sizes = cleave.constant([2, 2]) : !cleave.list<i64>
  // expected-error @below {{aten.view fails on the example inputs (shape '[2, 2]' is invalid for input of size 5); give inputs that the model takes}}
  %0 = aten.view(%x, %sizes) : (tensor<5xf32>, !cleave.list<i64>) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// The input that comes there is named.
func.func @fails_on_an_input(%x: tensor<2x5xf32> {cleave.name = "x"}, %y: tensor<3xf32> {cleave.name = "y"}) -> !cleave.tensor {
  %weight = cleave.param "weight" {role = "parameter"} : tensor<4x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.relu(%x) : (tensor<2x5xf32>) -> !cleave.tensor
  // expected-error @below {{aten.linear fails on the example inputs (mat1 and mat2 shapes cannot be multiplied (2x5 and 6x4)), where x is 2x5; give inputs that the model takes}}
  %1 = aten.linear(%0, %weight, %none) : (!cleave.tensor, tensor<4x6xf32>, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}
