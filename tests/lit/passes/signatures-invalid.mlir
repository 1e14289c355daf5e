// RUN: cleave-opt %s --assign-stages=stages=2 --split-input-file --verify-diagnostics
// All functions of a module share its weights and states.

func.func @one(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<8x8xf32>
  %none = cleave.constant(unit) : none
  %y = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<8x8xf32>, none) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @two(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{found weight "w" of 'tensor<4x8xf32>'}}
  %w = cleave.param "w" {role = "parameter"} : tensor<4x8xf32>
  %none = cleave.constant(unit) : none
  %y = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<4x8xf32>, none) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func @one(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<style = "colwise">} : tensor<8x8xf32>
  %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @two(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{as in an earlier function; all functions of a module share its weights}}
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<style = "rowwise">} : tensor<8x8xf32>
  %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<4xf32>
  %h = cleave.read_state "h" from %zeros : (tensor<4xf32>) -> tensor<4xf32>
  %y = aten.mul.Tensor(%h, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cleave.write_state "h" %y : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @two(%x: tensor<4xf32>) -> !cleave.tensor {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<4xf32>
  // expected-error @below {{found state "h" of '!cleave.tensor', expected 'tensor<4xf32>' as in an earlier function}}
  %h = cleave.read_state "h" from %zeros : (tensor<4xf32>) -> !cleave.tensor
  %y = aten.mul.Tensor(%h, %x) : (!cleave.tensor, tensor<4xf32>) -> !cleave.tensor
  cleave.write_state "h" %y : !cleave.tensor
  return %y : !cleave.tensor
}
