// RUN: cleave-opt %s --split-stages --verify-diagnostics --split-input-file
// Values flow to later stages only.

func.func @backwards(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{is in stage 0 but uses a value of stage 1; values only flow to later stages}}
  %1 = aten.tanh(%0) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Through an operation that every stage makes for itself, too.
func.func @through_cheap(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{is in stage 0 but uses a value of stage 1; values only flow to later stages}}
  %1 = aten.neg(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.tanh(%1) {cleave.stage_index = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
