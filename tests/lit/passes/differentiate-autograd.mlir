// RUN: cleave-opt %s --split-input-file --differentiate | FileCheck %s

// From the first value whose type depends on data on, all runs under PyTorch's autograd, and gives the loss.
// CHECK-LABEL: func.func @data
// CHECK: %[[W:.*]] = cleave.param "w"
// CHECK: %[[ONE:.*]] = aten.scalar_tensor
// CHECK: %[[RESULTS:.*]]:2 = cleave.vjp(%[[ONE]]) at(%[[W]], %arg1) {reason = "aten.masked_select: {{.*}}"} : (tensor<f32>) at(tensor<4xf32>, tensor<4xi1>) -> (tensor<4xf32>, tensor<f32>) {
// CHECK: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xi1>):
// CHECK: aten.masked_select(%[[A]], %[[B]])
// CHECK: return %[[RESULTS]]#1, %[[RESULTS]]#0
func.func @data(%x: tensor<4xf32>, %mask: tensor<4xi1>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.masked_select(%w, %mask) : (tensor<4xf32>, tensor<4xi1>) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// A branch in the middle runs again; the weight inside becomes an input.
// CHECK-LABEL: func.func @branch
// CHECK: %[[W:.*]] = cleave.param "w"
// CHECK: cleave.if
// CHECK: %[[GRAD:.*]] = aten.expand
// CHECK: %[[RESULTS:.*]]:2 = cleave.vjp(%[[GRAD]]) at(%[[W]], %arg1, %arg0) {reason = "control flow"}
// CHECK: cleave.if
// CHECK: return %{{.*}}, %[[RESULTS]]#0
func.func @branch(%x: tensor<4xf32>, %c: i1) -> (!cleave.tensor {cleave.name = "loss"}) {
  %none = cleave.constant(unit) : none
  %0 = cleave.if %c : tensor<4xf32> {
    %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
    %1 = aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    cleave.yield %1 : tensor<4xf32>
  } else {
    cleave.yield %x : tensor<4xf32>
  }
  %2 = aten.sum(%0, %none) : (tensor<4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// -----

// Layers with dropout between them become layers without, so that the forward and the backward pass agree on what is dropped.
// The tensors that kernels save depend on the device, so that each layer runs again under autograd.
// CHECK-LABEL: func.func @dropoutBetweenLayers
// CHECK: %[[H0:.*]] = aten.slice.Tensor(%arg1,
// CHECK: %[[FIRST:.*]]:2 = aten.gru.input(%arg0, %[[H0]],
// CHECK: aten.bernoulli.p(
// CHECK: %[[DROPPED:.*]] = aten.mul.Tensor(%[[FIRST]]#0,
// CHECK: %[[H1:.*]] = aten.slice.Tensor(%arg1,
// CHECK: %[[SECOND:.*]]:2 = aten.gru.input(%[[DROPPED]], %[[H1]],
// CHECK: cleave.vjp({{.*}}) at(%[[DROPPED]], {{.*}}) {reason = "the tensors that aten.gru saves depend on the device"}
// CHECK: aten.gru.input(
// CHECK: cleave.vjp({{.*}}) at({{.*}}) {reason = "the tensors that aten.gru saves depend on the device"}
// CHECK: aten.gru.input(
func.func @dropoutBetweenLayers(%x: tensor<3x4x6xf32>, %h: tensor<2x4x5xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %wi0 = cleave.param "wi0" {role = "parameter"} : tensor<15x6xf32>
  %wh0 = cleave.param "wh0" {role = "parameter"} : tensor<15x5xf32>
  %wi1 = cleave.param "wi1" {role = "parameter"} : tensor<15x5xf32>
  %wh1 = cleave.param "wh1" {role = "parameter"} : tensor<15x5xf32>
  %weights = cleave.list(%wi0, %wh0, %wi1, %wh1) : (tensor<15x6xf32>, tensor<15x5xf32>, tensor<15x5xf32>, tensor<15x5xf32>) -> !cleave.list<!cleave.tensor>
  %no = cleave.constant(false) : i1
  %yes = cleave.constant(true) : i1
  %layers = cleave.constant(2 : i64) : i64
  %p = cleave.constant(5.000000e-01 : f64) : f64
  %none = cleave.constant(unit) : none
  %0:2 = aten.gru.input(%x, %h, %weights, %no, %layers, %p, %yes, %no, %no) : (tensor<3x4x6xf32>, tensor<2x4x5xf32>, !cleave.list<!cleave.tensor>, i1, i64, f64, i1, i1, i1) -> (!cleave.tensor, !cleave.tensor)
  %1 = aten.sum(%0#0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// A number of layers that the weights do not divide into.
// CHECK-LABEL: func.func @noLayers
// CHECK: aten.gru.input(
// CHECK-NOT: aten.slice
func.func @noLayers(%x: tensor<3x4x6xf32>, %h: tensor<0x4x5xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<15x6xf32>
  %weights = cleave.list(%w) : (tensor<15x6xf32>) -> !cleave.list<!cleave.tensor>
  %no = cleave.constant(false) : i1
  %layers = cleave.constant(0 : i64) : i64
  %p = cleave.constant(5.000000e-01 : f64) : f64
  %none = cleave.constant(unit) : none
  %0:2 = aten.gru.input(%x, %h, %weights, %no, %layers, %p, %no, %no, %no) : (tensor<3x4x6xf32>, tensor<0x4x5xf32>, !cleave.list<!cleave.tensor>, i1, i64, f64, i1, i1, i1) -> (!cleave.tensor, !cleave.tensor)
  %2 = aten.sum(%w, %none) : (tensor<15x6xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
