// RUN: cleave-opt %s --verify-diagnostics --split-input-file
// Operators are checked against PyTorch's registry.

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{found 2 operands, expected 3 (input, weight, bias)}}
  %0 = aten.linear(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{found 0 results, expected 1}}
  aten.relu(%x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{custom op 'aten.rellu' is unknown}}
  %0 = aten.rellu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // Its overloads are aten.softmax.int and aten.softmax.Dimname.
  // expected-error @below {{custom op 'aten.softmax' is unknown}}
  %0 = aten.softmax(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-note @below {{Registered dialects: }}
  // expected-error @below {{Dialect `torchvision' not found for custom op 'torchvision.nms'}}
  %0 = torchvision.nms(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
