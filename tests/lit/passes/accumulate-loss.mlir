// RUN: cleave-opt %s --split-input-file --accumulate-loss --infer-types --canonicalize --cse | FileCheck %s
// A micro-batch returns its loss times a normalizer, and the normalizer.

// The number of labels that are not ignored. A micro-batch without any gives 0, not NaN.
// CHECK-LABEL: func.func @classes(
// CHECK-SAME: -> (tensor<f32> {cleave.name = "loss"}, tensor<f32> {cleave.loss_normalizer, cleave.name = "loss_normalizer"})
// CHECK-SAME: cleave.output_tree = ["dict", "outputs", ["dict", "loss", 0], "loss_normalizer", 1], cleave.split_batch = "batch"
// CHECK-DAG: %[[SUM_OF:.*]] = cleave.constant(2 : i64) : i64
// CHECK-DAG: %[[IGNORED:.*]] = cleave.constant(-100 : i64) : i64
// CHECK: %[[COUNTS:.*]] = aten.ne.Scalar(%arg1, %[[IGNORED]])
// CHECK: %[[COUNT:.*]] = aten.sum(%[[COUNTS]]
// CHECK: %[[SUM:.*]] = aten.cross_entropy_loss({{.*}}, %arg1, %{{.*}}, %[[SUM_OF]], %[[IGNORED]], %{{.*}})
// CHECK: %[[ISZERO:.*]] = aten.eq.Scalar(%[[COUNT]]
// CHECK: %[[SAFE:.*]] = aten.masked_fill.Scalar(%[[COUNT]], %[[ISZERO]]
// CHECK: %[[MEAN:.*]] = aten.div.Tensor(%[[SUM]], %[[SAFE]])
// CHECK: %[[NORMALIZER:.*]] = aten.to.dtype(%{{.*}}) : {{.*}} -> tensor<f32>
// CHECK: %[[TERM:.*]] = aten.mul.Tensor(%[[MEAN]], %[[NORMALIZER]])
// CHECK: return %[[TERM]], %[[NORMALIZER]]
func.func @classes(%x: tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>> {cleave.name = "x"},
                   %labels: tensor<?xi64, #cleave.layout<dims = ["batch"]>> {cleave.name = "labels"})
    -> (tensor<f32> {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 4 : i64}, cleave.input_tree = ["tuple", 0, 1],
                cleave.output_tree = ["dict", "loss", 0]} {
  %w = cleave.param "w" {role = "parameter"} : tensor<5xf32>
  %none = cleave.constant(unit) : none
  %mean = cleave.constant(1 : i64) : i64
  %ignored = cleave.constant(-100 : i64) : i64
  %smoothing = cleave.constant(0.0 : f64) : f64
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<5xf32>) -> tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>
  %1 = aten.cross_entropy_loss(%0, %labels, %none, %mean, %ignored, %smoothing) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<?xi64, #cleave.layout<dims = ["batch"]>>, none, i64, i64, f64) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// The number of samples, for a mean over elements. A term that is the same for each micro-batch may be added.
// CHECK-LABEL: func.func @elements(
// CHECK: %[[SAMPLES:.*]] = cleave.size "batch"
// CHECK: %[[NORMALIZER:.*]] = aten.full(%{{.*}}, %[[SAMPLES]]
// CHECK: %[[TERM:.*]] = aten.mul.Tensor(%{{.*}}, %[[NORMALIZER]])
// CHECK: return %[[TERM]], %[[NORMALIZER]]
func.func @elements(%x: tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>> {cleave.name = "x"})
    -> (tensor<f32> {cleave.name = "loss"}) attributes {cleave.symbols = {batch = 4 : i64}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<5xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<5xf32>) -> tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>
  %1 = aten.mean(%0, %none) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, none) -> tensor<f32>
  %2 = aten.sum(%w, %none) : (tensor<5xf32>, none) -> tensor<f32>
  %3 = aten.add.Tensor(%1, %2, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// A sum has no normalizer.
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: -> (tensor<f32> {cleave.name = "loss"}) attributes
// CHECK-SAME: cleave.split_batch = "batch"
// CHECK: %[[LOSS:.*]] = aten.sum
// CHECK-NEXT: return %[[LOSS]]
func.func @sum(%x: tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>> {cleave.name = "x"})
    -> (tensor<f32> {cleave.name = "loss"}) attributes {cleave.symbols = {batch = 4 : i64}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<5xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<5xf32>) -> tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>
  %1 = aten.sum(%0, %none) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, none) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// The divisor of a quotient of two sums, as it depends on inputs alone. A term that is not linear in sums and means, the square of
// a mean, is computed per micro-batch.
// CHECK-LABEL: func.func @masked(
// CHECK-SAME: cleave.inexact_loss = ["aten.square at router is not linear in sums and means over dimension batch"]
// CHECK: %[[COUNT:.*]] = aten.sum(%arg1
// CHECK: %[[NORMALIZER:.*]] = aten.masked_fill.Scalar(%[[COUNT]], %{{.*}}, %{{.*}}) : (tensor<f32>, tensor<i1>, f64)
// CHECK: %[[SAFE:.*]] = aten.masked_fill.Scalar(%[[COUNT]], %{{.*}}, %{{.*}}) : (tensor<f32>, tensor<i1>, i64)
// CHECK: %[[MEAN:.*]] = aten.div.Tensor(%{{.*}}, %[[SAFE]])
// CHECK: %[[ROUTER:.*]] = aten.square
// CHECK: %[[LOSS:.*]] = aten.add.Tensor(%[[MEAN]], %[[ROUTER]]
// CHECK: %[[SCALAR:.*]] = aten.reshape(%[[NORMALIZER]]
// CHECK: aten.mul.Tensor(%[[LOSS]], %[[SCALAR]])
func.func @masked(%x: tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>> {cleave.name = "x"},
                  %mask: tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>> {cleave.name = "mask"})
    -> (tensor<f32> {cleave.name = "loss"}) attributes {cleave.symbols = {batch = 4 : i64}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<5xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mul.Tensor(%x, %w) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<5xf32>) -> tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>
  %1 = aten.mul.Tensor(%0, %mask) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>) -> tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>
  %2 = aten.sum(%1, %none) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, none) -> tensor<f32>
  %3 = aten.sum(%mask, %none) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, none) -> tensor<f32>
  %4 = aten.div.Tensor(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = aten.mean(%0, %none) : (tensor<?x5xf32, #cleave.layout<dims = ["batch", "5"]>>, none) -> tensor<f32>
  %6 = aten.square(%5) : (tensor<f32>) -> tensor<f32> loc("router")
  %7 = aten.add.Tensor(%4, %6, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  return %7 : tensor<f32>
}
