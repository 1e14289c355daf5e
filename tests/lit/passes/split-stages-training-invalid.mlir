// RUN: cleave-opt %s --split-stages --split-input-file --verify-diagnostics

// Forward values do not flow back.
func.func @back(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = aten.relu(%x) {cleave.stage_index = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{is in stage 0, backward_input, but uses a value of stage 1, forward; gradients flow to earlier stages, and nothing flows back or into an update}}
  %g = aten.relu(%y) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2xf32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

// Nor do gradients flow to later stages.
func.func @forth(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = aten.relu(%x) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{is in stage 1, backward_input, but uses a value of stage 0, backward_input}}
  %g = aten.relu(%y) {cleave.stage_index = 1 : i64, cleave.phase = #cleave.phase<backward_input>} : (tensor<2xf32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

// An update takes sums, not values of one micro-batch.
func.func @update(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = aten.relu(%x) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<backward_weight>} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{is in stage 0, update, but uses a value of stage 0, backward_weight}}
  %g = aten.relu(%y) {cleave.stage_index = 0 : i64, cleave.phase = #cleave.phase<update>} : (tensor<2xf32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

func.func @phase(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{cleave.phase: found "update", expected #cleave.phase<...>}}
  %y = aten.relu(%x) {cleave.stage_index = 0 : i64, cleave.phase = "update"} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @assign(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{found a value that is no weight, expected a cleave.param of role parameter}}
  cleave.write_weight %x, %x : tensor<2xf32>, tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

func.func @assign_shape(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<3xf32>
  // expected-error @below {{found 'tensor<2xf32>' for 'tensor<3xf32>'}}
  cleave.write_weight %w, %x : tensor<3xf32>, tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

func.func @sum(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @below {{found sum "g" of 'tensor<?xf32>', expected a name and known sizes}}
  cleave.accumulate "g" %x : tensor<?xf32>
  return %x : tensor<?xf32>
}
