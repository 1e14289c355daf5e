// RUN: cleave-opt %s --verify-diagnostics --split-input-file
// What a state and its update must be.

func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{found no name, expected the path of an attribute}}
  %0 = cleave.read_state "" from %x : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{found initial value 'tensor<2xf32>' for a state of type 'tensor<3xf32>'}}
  %0 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: !cleave.tensor) {
  // expected-error @below {{expected a type without named sizes, which requests may change}}
  %0 = cleave.read_state "h" from %x : (!cleave.tensor) -> tensor<?xf32, #cleave.layout<dims = ["batch"]>>
  return
}

// -----

func.func @f(%x: i64) {
  // expected-error @below {{found initial value 'i64' for a state of type 'f64'}}
  %0 = cleave.read_state "h" from %x : (i64) -> f64
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{found two states "h"}}
  %0 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{found no cleave.read_state "h" in its block, which holds what it updates}}
  cleave.write_state "h" %x : tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  %0 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{found two updates of "h"}}
  cleave.write_state "h" %0 : tensor<2xf32>
  cleave.write_state "h" %x : tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  %0 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @below {{found 'tensor<3xf32>' for a state of type 'tensor<2xf32>'}}
  cleave.write_state "h" %y : tensor<3xf32>
  return
}

// -----

// Not in a branch: whether it is reached, and which value it has, is the branch's result.
func.func @f(%x: tensor<2xf32>, %often: i1) {
  %0 = cleave.read_state "h" from %x : (tensor<2xf32>) -> tensor<2xf32>
  cleave.if %often {
    // expected-error @below {{found no cleave.read_state "h" in its block}}
    cleave.write_state "h" %0 : tensor<2xf32>
    cleave.yield
  } else {
    cleave.yield
  }
  return
}

// -----

// Nor in another stage.
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = cleave.stage 0(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%inside: tensor<2xf32>):
    %h = cleave.read_state "h" from %inside : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %h : tensor<2xf32>
  }
  %1 = cleave.stage 1(%0) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%inside: tensor<2xf32>):
    // expected-error @below {{found no cleave.read_state "h" in its block}}
    cleave.write_state "h" %inside : tensor<2xf32>
    cleave.yield %inside : tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}

// -----

func.func @f(%x: tensor<1x8xf32>) {
  // expected-error @below {{expected a type with a name in dimension 1 alone, the batch's}}
  %0 = cleave.read_state "h" from %x {batch_dim = 1 : i64} : (tensor<1x8xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  return
}

// -----

func.func @f(%x: tensor<1x8xf32>) {
  // expected-error @below {{expected a type with a name in dimension 0 alone, the batch's}}
  %0 = cleave.read_state "h" from %x {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["2*batch", "8"]>>
  return
}

// -----

func.func @f(%x: tensor<1x4xf32>) {
  // expected-error @below {{found initial value 'tensor<1x4xf32>' for rows of a state of type}}
  %0 = cleave.read_state "h" from %x {batch_dim = 0 : i64} : (tensor<1x4xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  return
}
