// RUN: cleave-opt %s --differentiate --verify-diagnostics --split-input-file

// expected-error @below {{the loss: found a, b, expected a result 'loss'; name one of these (--loss NAME), attach a loss of one (--loss 'mse(output, target)'), or trace the model with labels}}
func.func @no_loss(%x: tensor<4xf32>) -> (tensor<4xf32> {cleave.name = "a"}, tensor<4xf32> {cleave.name = "b"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{the loss 'loss': found tensor<4xf32>, expected one floating-point number}}
func.func @no_number(%x: tensor<4xf32>) -> (tensor<4xf32> {cleave.name = "loss"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{the loss depends on no weight that is trained}}
func.func @no_weight(%x: tensor<f32>) -> (tensor<f32> {cleave.name = "loss"}) {
  return %x : tensor<f32>
}

// -----

// expected-error @below {{the loss: found a.loss, b.loss, expected one result 'loss'; name one of these}}
func.func @several(%x: tensor<f32>) -> (tensor<f32> {cleave.name = "a.loss"}, tensor<f32> {cleave.name = "b.loss"}) {
  return %x, %x : tensor<f32>, tensor<f32>
}

// -----

// One number at the traced size alone.
// expected-error @below {{the loss 'loss': found tensor<?xf32}}
func.func @per_sample(%x: tensor<?xf32, #cleave.layout<dims = ["n"]>>)
    -> (tensor<?xf32, #cleave.layout<dims = ["n"]>> {cleave.name = "loss"}) attributes {cleave.symbols = {n = 1}} {
  return %x : tensor<?xf32, #cleave.layout<dims = ["n"]>>
}

// -----

// A weight that the model writes is a state, which gradients do not reach.
func.func @written(%x: tensor<4xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  // expected-error @below {{weight 'w' is written by the model itself, so that it has no gradient; leave it out with trainable patterns}}
  %0 = cleave.read_state "w" from %w : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.mul.Tensor(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cleave.write_state "w" %1 : tensor<4xf32>
  %2 = aten.sum(%1, %none) : (tensor<4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// -----

func.func @random_branch(%x: tensor<4xf32>, %c: i1) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  %p = cleave.constant(5.000000e-01 : f64) : f64
  %on = cleave.constant(true) : i1
  %0 = cleave.if %c : tensor<4xf32> {
    // expected-error @below {{aten.dropout has no gradient: its backward pass runs it again, which would draw other random numbers; set dropout probabilities to 0}}
    %1 = aten.dropout(%w, %p, %on) : (tensor<4xf32>, f64, i1) -> tensor<4xf32>
    cleave.yield %1 : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  %2 = aten.sum(%0, %none) : (tensor<4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
