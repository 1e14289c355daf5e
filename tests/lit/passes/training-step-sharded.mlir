// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(differentiate{for-optimizer=true},fold-sizes,canonicalize,cse,infer-types),propagate-sharding,func.func(insert-reshards,partition-spmd,optimize-collectives,canonicalize,cse,infer-types,accumulate-gradients,add-optimizer{clip-norm=1},canonicalize,cse,infer-types))' | FileCheck %s
// A training step over two tensor-parallel ranks: rows of a table, columns and rows of two layers, classes of the last one. Each rank
// keeps gradients and optimizer states of its own shards.

// CHECK-LABEL: func.func @step
// CHECK-SAME: -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<f32> {cleave.name = "grad_norm"})
// CHECK-DAG: cleave.param "table" {{.*}} : tensor<10x6xf32>
// CHECK-DAG: cleave.param "up" {{.*}} : tensor<4x6xf32>
// CHECK-DAG: cleave.param "down" {{.*}} : tensor<6x4xf32>
// CHECK-DAG: cleave.param "scale" {cleave.trained, role = "parameter"} : tensor<6xf32>

// Forward: a lookup in a sharded table, and a layer that is split by rows, each end with a sum.
// CHECK: aten.embedding(
// CHECK: spmd.all_reduce({{.*}}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK: aten.relu(
// CHECK: spmd.all_reduce({{.*}}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK-NOT: spmd.

// Of the scores ranks exchange the logarithms of their sums, and the loss.
// CHECK: aten.logsumexp({{.*}}) : (tensor<4x10xf32>
// CHECK: spmd.all_gather({{.*}}) : (tensor<4x1xf32>
// CHECK: aten.nll_loss_forward({{.*}}) : (tensor<4x10xf32>
// CHECK: spmd.all_reduce({{.*}}) : (tensor<f32>) -> tensor<f32>
// CHECK-NOT: spmd.

// Backward: one sum for the scores, and one in front of each layer that is split by columns; none for weights.
// CHECK: aten.nll_loss_backward({{.*}}) : (tensor<f32>, tensor<4x10xf32>
// CHECK: spmd.all_reduce({{.*}}) : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK: spmd.all_reduce({{.*}}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK: cleave.accumulate "grad.table" {{.*}} {cleave.gradient, shard = #cleave.sharding<0, [0, 10], [10, 10]>} : tensor<10x6xf32>
// CHECK: cleave.accumulate "grad.down" {{.*}} {cleave.gradient, shard = #cleave.sharding<1, [0, 4], [4, 4]>} : tensor<6x4xf32>
// CHECK: spmd.all_reduce({{.*}}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
// CHECK: cleave.accumulate "grad.up" {{.*}} {cleave.gradient, shard = #cleave.sharding<0, [0, 4], [4, 4]>} : tensor<4x6xf32>
// CHECK: cleave.accumulate "grad.scale" %{{[0-9]*}} {cleave.gradient} : tensor<6xf32>
// CHECK: aten.embedding_dense_backward({{.*}}) : (tensor<4x6xf32>, tensor<4xi64>
// CHECK-NOT: spmd.

// Update: the squares of the parts' norms are added.
// CHECK: aten.mul.Tensor({{.*}}) {cleave.phase = #cleave.phase<update>} : (tensor<f64>, tensor<f64>)
// CHECK-NEXT: spmd.all_reduce({{.*}}) {cleave.phase = #cleave.phase<update>} : (tensor<f64>) -> tensor<f64>
// CHECK-NOT: spmd.
// CHECK: cleave.update_weight({{.*}}states = ["table.exp_avg", "table.exp_avg_sq"]
func.func @step(%ids: tensor<4xi64> {cleave.name = "ids"}, %labels: tensor<4xi64> {cleave.name = "labels"})
    -> (!cleave.tensor {cleave.name = "logits"}, !cleave.tensor {cleave.name = "loss"})
    attributes {cleave.tp = 2 : i64, cleave.input_tree = ["tuple", 0, 1], cleave.output_tree = ["tuple", 0, 1]} {
  %table = cleave.param "table" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0, order = 1>>} : tensor<20x6xf32>
  %scale = cleave.param "scale" {role = "parameter"} : tensor<6xf32>
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x8xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %minus = cleave.constant(-1 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %ignored = cleave.constant(-100 : i64) : i64
  %zero = cleave.constant(0.0 : f64) : f64
  %0 = aten.embedding(%table, %ids, %minus, %no, %no) : (tensor<20x6xf32>, tensor<4xi64>, i64, i1, i1) -> !cleave.tensor
  %1 = aten.mul.Tensor(%0, %scale) : (!cleave.tensor, tensor<6xf32>) -> !cleave.tensor
  %2 = aten.linear(%1, %up, %none) : (!cleave.tensor, tensor<8x6xf32>, none) -> !cleave.tensor
  %3 = aten.relu(%2) : (!cleave.tensor) -> !cleave.tensor
  %4 = aten.linear(%3, %down, %none) : (!cleave.tensor, tensor<6x8xf32>, none) -> !cleave.tensor
  %5 = aten.linear(%4, %table, %none) : (!cleave.tensor, tensor<20x6xf32>, none) -> !cleave.tensor
  %6 = aten.cross_entropy_loss(%5, %labels, %none, %one, %ignored, %zero) : (!cleave.tensor, tensor<4xi64>, none, i64, i64, f64) -> !cleave.tensor
  return %5, %6 : !cleave.tensor, !cleave.tensor
}
