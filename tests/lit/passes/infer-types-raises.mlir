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
