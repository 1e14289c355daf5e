// RUN: cleave-opt %s --split-input-file --infer-types --annotate-sharding=tp=2 | FileCheck %s
// RUN: cleave-opt %s --split-input-file --infer-types --annotate-sharding="tp=2 shard=*=replicate,mlp.*=rowwise,mlp.up=ColwiseParallel,tied=vocab" | FileCheck %s --check-prefix=RULES
// Which weights are split, and how.

// A width of 9 over two ranks: columns and then rows, which follow from the first. Biases have no style.
// CHECK-LABEL: func.func @mlp({{.*}}seconds = [1.001{{[0-9]*}}e-05, 7.01{{[0-9]*}}e-06]>{{.*}}cleave.tp = 2 : i64}
// CHECK: cleave.param "mlp.up.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "colwise", seed = <dim = 0>>
// CHECK: cleave.param "mlp.up.bias" {role
// CHECK: cleave.param "mlp.down.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "rowwise">
// Of several rules the last that matches counts.
// RULES-LABEL: func.func @mlp
// RULES: cleave.param "mlp.up.weight" {{{.*}}<style = "colwise", seed = <dim = 0{{.*}}>, user_constraint = true>
// RULES: cleave.param "mlp.down.weight" {{{.*}}style = "rowwise"
func.func @mlp(%x: tensor<4x6xf32>) -> !cleave.tensor {
  %up = cleave.param "mlp.up.weight" {role = "parameter"} : tensor<9x6xf32>
  %bias = cleave.param "mlp.up.bias" {role = "parameter"} : tensor<9xf32>
  %down = cleave.param "mlp.down.weight" {role = "parameter"} : tensor<6x9xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %bias) : (tensor<4x6xf32>, tensor<9x6xf32>, tensor<9xf32>) -> !cleave.tensor
  %1 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  %2 = aten.linear(%1, %down, %none) : (!cleave.tensor, tensor<6x9xf32>, none) -> !cleave.tensor
  // So that the rules of the other functions match something here too.
  %tied = cleave.param "tied.x" {role = "parameter"} : tensor<6x6xf32>
  %ids = cleave.param "ids" {role = "buffer"} : tensor<4xi64>
  %no = cleave.constant(false) : i1
  %pad = cleave.constant(-1 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %rows = aten.embedding(%tied, %ids, %pad, %no, %no) : (tensor<6x6xf32>, tensor<4xi64>, i64, i1, i1) -> !cleave.tensor
  %3 = aten.add.Tensor(%2, %rows, %one) : (!cleave.tensor, !cleave.tensor, i64) -> !cleave.tensor
  return %3 : !cleave.tensor
}

// -----

// A weight that is both looked up and multiplied follows from the layer between, or is split by rows.
// CHECK-LABEL: func.func @tied
// CHECK: cleave.param "tied.weight" {{{.*}}<style = "rowwise">
// RULES-LABEL: func.func @tied
// RULES: cleave.param "tied.weight" {{{.*}}<style = "embedding_rowwise", seed = <dim = 0
func.func @tied(%ids: tensor<2x3xi64>) -> !cleave.tensor {
  %w = cleave.param "tied.weight" {role = "parameter"} : tensor<11x4xf32>
  %up = cleave.param "mlp.up.weight" {role = "parameter"} : tensor<4x4xf32>
  %no = cleave.constant(false) : i1
  %pad = cleave.constant(-1 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.embedding(%w, %ids, %pad, %no, %no) : (tensor<11x4xf32>, tensor<2x3xi64>, i64, i1, i1) -> !cleave.tensor
  %1 = aten.linear(%0, %up, %none) : (!cleave.tensor, tensor<4x4xf32>, none) -> !cleave.tensor
  %2 = aten.linear(%1, %w, %none) : (!cleave.tensor, tensor<11x4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
