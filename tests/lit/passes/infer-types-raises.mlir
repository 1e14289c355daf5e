// RUN: cleave-opt %s --infer-types --verify-diagnostics --split-input-file
// A model that raises on the example inputs, whatever they hold, says so.

func.func @raises(%x: tensor<4xf32>) -> !cleave.tensor {
  %message = cleave.constant("too short") : !cleave.str
  %class = cleave.constant("builtins.ValueError") : !cleave.str
  %zero = cleave.constant(0 : i64) : i64
  %size = aten.size.int(%x, %zero) : (tensor<4xf32>, i64) -> i64
  %five = cleave.constant(5 : i64) : i64
  %short = aten.lt.int(%size, %five) : (i64, i64) -> i1
  cleave.if %short {
    // expected-error @below {{prim.RaiseException fails on the example inputs (the model raises "too short"); give inputs that the model takes}}
    prim.RaiseException(%message, %class) : (!cleave.str, !cleave.str) -> ()
    cleave.yield
  } else {
    cleave.yield
  }
  %0 = aten.relu(%x) : (tensor<4xf32>) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// Data decides which branch is taken, and each fails.
func.func @fails_in_every_branch(%x: tensor<8xf32>, %data: tensor<i1>) -> !cleave.tensor {
  %up = aten.Bool.Tensor(%data) : (tensor<i1>) -> i1
  %message = cleave.constant("too low") : !cleave.str
  %class = cleave.constant("builtins.ValueError") : !cleave.str
  %sizes = cleave.constant([3, 7]) : !cleave.list<i64>
  cleave.if %up {
    // expected-error @below {{aten.view fails on the example inputs (shape '[3, 7]' is invalid for input of size 8), and every other branch fails as well; give inputs that the model takes}}
    %0 = aten.view(%x, %sizes) : (tensor<8xf32>, !cleave.list<i64>) -> !cleave.tensor
    cleave.yield
  } else {
    prim.RaiseException(%message, %class) : (!cleave.str, !cleave.str) -> ()
    cleave.yield
  }
  %1 = aten.relu(%x) : (tensor<8xf32>) -> !cleave.tensor
  return %1 : !cleave.tensor
}
