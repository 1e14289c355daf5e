// RUN: cleave-opt %s --differentiate --canonicalize --cse | FileCheck %s
// Gradients of weights become results, by the operations that PyTorch's autograd runs.

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<16x8xf32> {cleave.gradient, cleave.name = "grad.w"}, tensor<16xf32> {cleave.gradient, cleave.name = "grad.b"})
// CHECK-SAME: cleave.output_tree = ["dict", "outputs", ["tuple", 0], "gradients", ["dict", "w", 1, "b", 2]]
// The forward operation stays, since its backward pass needs its operands alone.
// CHECK: aten.linear(
// CHECK: %[[DY:.*]] = aten.expand(
// CHECK-DAG: aten.mm(
// CHECK-DAG: aten.sum.dim_IntList(
func.func @linear(%x: tensor<4x8xf32>) -> (!cleave.tensor {cleave.name = "loss"})
    attributes {cleave.output_tree = ["tuple", 0]} {
  %w = cleave.param "w" {role = "parameter"} : tensor<16x8xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<16xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %b) : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// A weight that is used twice has the sum of both gradients; a buffer has none.
// CHECK-LABEL: func.func @tied(
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<8xf32> {cleave.gradient, cleave.name = "grad.w"})
// CHECK: aten.add.Tensor
// CHECK: return %{{.*}}, %{{.*}} : tensor<f32>, tensor<8xf32>
func.func @tied(%x: tensor<4x8xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %buffer = cleave.param "buffer" {role = "buffer"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> !cleave.tensor
  %1 = aten.mul.Tensor(%0, %buffer) : (!cleave.tensor, tensor<8xf32>) -> !cleave.tensor
  %2 = aten.mul.Tensor(%1, %w) : (!cleave.tensor, tensor<8xf32>) -> !cleave.tensor
  %3 = aten.mean(%2, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %3 : !cleave.tensor
}

// Backward operations have expressions for sizes that vary; the mean divides by the number of elements.
// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: tensor<8xf32> {cleave.gradient, cleave.name = "grad.w"}
// CHECK-NOT: aten.size
// CHECK: %[[COUNT:.*]] = cleave.size "8*batch"
// CHECK: aten.div.Scalar(%{{.*}}, %[[COUNT]])
// CHECK-NOT: aten.size
func.func @dynamic(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> (!cleave.tensor {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 3}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, tensor<8xf32>) -> !cleave.tensor
  %1 = aten.mean(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// The backward pass of a dropout needs its mask, so the operators that make and apply the mask take its place.
// CHECK-LABEL: func.func @dropout(
// CHECK-NOT: aten.dropout
// CHECK: aten.bernoulli.p(
// CHECK: %[[MASK:.*]] = aten.div.Scalar(
// CHECK: %[[Y:.*]] = aten.mul.Tensor(%{{.*}}, %[[MASK]])
// CHECK: aten.sum(%[[Y]]
// CHECK: aten.mul.Tensor({{.*}}%[[MASK]])
func.func @dropout(%x: tensor<4x8xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %p = cleave.constant(0.1 : f64) : f64
  %true = cleave.constant(true) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> !cleave.tensor
  %1 = aten.dropout(%0, %p, %true) : (!cleave.tensor, f64, i1) -> !cleave.tensor
  %2 = aten.sum(%1, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// Gradients go through lists, and stop at detach, which goes.
// CHECK-LABEL: func.func @stops(
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<4x8xf32, #cleave.layout<strides = ["0", "0"]>> {cleave.gradient, cleave.name = "grad.a"})
// CHECK-NOT: aten.detach
func.func @stops(%x: tensor<4x8xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %a = cleave.param "a" {role = "parameter"} : tensor<4x8xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<4x8xf32>
  %none = cleave.constant(unit) : none
  %zero = cleave.constant(0 : i64) : i64
  %0 = aten.detach(%b) : (tensor<4x8xf32>) -> !cleave.tensor
  %list = cleave.list(%a, %0, %x) : (tensor<4x8xf32>, !cleave.tensor, tensor<4x8xf32>) -> !cleave.list<!cleave.tensor>
  %1 = aten.cat(%list, %zero) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %2 = aten.sum(%1, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// Gradients pass boundaries.
// CHECK-LABEL: func.func @boundaries(
// CHECK-SAME: tensor<8xf32> {cleave.gradient, cleave.name = "grad.w"}
// CHECK: cleave.boundary %{{.*}} "block"
func.func @boundaries(%x: tensor<4x8xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = cleave.boundary %0 "block" output 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = aten.sum(%1, %none) : (tensor<4x8xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// A copy into a tensor has no derivative; its source has, in the dtype and shape of the tensor.
// CHECK-LABEL: func.func @copy(
// CHECK-SAME: tensor<8xf32> {cleave.gradient, cleave.name = "grad.w"})
// CHECK-NOT: aten.copy
// CHECK: aten.expand_as(
func.func @copy(%x: tensor<4x8xf64>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.copy(%x, %w, %false) : (tensor<4x8xf64>, tensor<8xf32>, i1) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// The entry of a dictionary is the value that it was made of.
// CHECK-LABEL: func.func @dictionary(
// CHECK-SAME: tensor<8xf32, {{.*}}> {cleave.gradient, cleave.name = "grad.w"})
func.func @dictionary(%x: tensor<8xf32>) -> (!cleave.tensor {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %a = cleave.constant("a") : !cleave.str
  %b = cleave.constant("b") : !cleave.str
  %none = cleave.constant(unit) : none
  %dict = cleave.dict(%a, %x, %b, %w) : (!cleave.str, tensor<8xf32>, !cleave.str, tensor<8xf32>) -> !cleave.dict<!cleave.str, !cleave.tensor>
  %0 = aten.__getitem__.Dict_str(%dict, %b) : (!cleave.dict<!cleave.str, !cleave.tensor>, !cleave.str) -> !cleave.tensor
  %1 = aten.sum(%0, %none) : (!cleave.tensor, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}
