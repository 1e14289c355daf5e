// RUN: cleave-opt %s --differentiate --verify-diagnostics --split-input-file

// expected-error @below {{the loss: found a, b, expected a result 'loss'; name one of these, attach a loss of one (mse(output, target)), or trace the model with labels}}
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

func.func @data(%x: tensor<4xf32>, %mask: tensor<4xi1>) -> (tensor<f32> {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  // expected-error @below {{aten.masked_select has no gradient: the loss depends on it, and its types depend on data (libtorch has no kernel for it that needs no data)}}
  %0 = aten.masked_select(%w, %mask) : (tensor<4xf32>, tensor<4xi1>) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @branch(%x: tensor<4xf32>, %c: i1) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  // expected-error @below {{cleave.if has no gradient: gradients through control flow are not supported; trace the model with inputs that fix the branch}}
  %0 = cleave.if %c : tensor<4xf32> {
    %1 = aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %1 : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  %2 = aten.sum(%0, %none) : (tensor<4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
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

// The number of rows is the length of the list.
func.func @unbind(%x: tensor<?x4xf32, #cleave.layout<dims = ["n", "4"]>>) -> (!cleave.tensor {cleave.name = "loss"})
    attributes {cleave.symbols = {n = 3}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x4xf32, #cleave.layout<dims = ["n", "4"]>>, tensor<4xf32>) -> !cleave.tensor
  %1 = aten.unbind.int(%0, %zero) : (!cleave.tensor, i64) -> !cleave.list<!cleave.tensor>
  // expected-error @below {{aten.stack has no gradient: the number of its operands depends on sizes}}
  %2 = aten.stack(%1, %zero) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %3 = aten.sum(%2, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %3 : !cleave.tensor
}
