// RUN: cleave-opt %s --differentiate --verify-diagnostics --split-input-file

// expected-error @below {{the loss: found a, b, expected a result 'loss'; trace the model with labels, or attach a loss}}
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
