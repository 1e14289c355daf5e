// RUN: cleave-opt %s --split-input-file --annotate-sharding | FileCheck %s
// RUN: cleave-opt %s --split-input-file --annotate-sharding=tp=4 | FileCheck %s --check-prefix=FOUR
// One rank splits nothing; what is not worth a collective is kept whole, and a weight with fewer positions than ranks.

// CHECK-LABEL: func.func @forward(
// CHECK-NOT: cleave.tp
// CHECK-NOT: cleave.weight_sharding
// FOUR-LABEL: func.func @forward({{.*}}cleave.tp = 4
// FOUR: cleave.param "wide" {{.*}}<style = "colwise"
// FOUR: cleave.param "w" {cleave.weight_sharding = #cleave.weight_sharding<style = "replicate">, role = "parameter"}
func.func @forward(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x8xf32>) {
  %wide = cleave.param "wide" {role = "parameter"} : tensor<8x3xf32>
  %w = cleave.param "w" {role = "parameter"} : tensor<3x3xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x3xf32>, tensor<3x3xf32>, none) -> tensor<4x3xf32>
  %1 = aten.linear(%0, %wide, %none) : (tensor<4x3xf32>, tensor<8x3xf32>, none) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<4x8xf32>
}

// -----

// Of a table of two rows its columns could be split, and what is taken of it gathered.
// FOUR-LABEL: func.func @types(
// FOUR: cleave.param "words" {{{.*}}<style = "embedding_rowwise"
// FOUR: cleave.param "types" {{{.*}}<style = "replicate"
func.func @types(%ids: tensor<32x64xi64>, %kinds: tensor<32x64xi64>) -> tensor<32x64x1000xf32> {
  %words = cleave.param "words" {role = "parameter"} : tensor<1000x64xf32>
  %types = cleave.param "types" {role = "parameter"} : tensor<2x64xf32>
  %no = cleave.constant(false) : i1
  %pad = cleave.constant(-1 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.embedding(%words, %ids, %pad, %no, %no) : (tensor<1000x64xf32>, tensor<32x64xi64>, i64, i1, i1) -> tensor<32x64x64xf32>
  %1 = aten.embedding(%types, %kinds, %pad, %no, %no) : (tensor<2x64xf32>, tensor<32x64xi64>, i64, i1, i1) -> tensor<32x64x64xf32>
  %2 = aten.add.Tensor(%0, %1, %one) : (tensor<32x64x64xf32>, tensor<32x64x64xf32>, i64) -> tensor<32x64x64xf32>
  %none = cleave.constant(unit) : none
  %3 = aten.linear(%2, %words, %none) : (tensor<32x64x64xf32>, tensor<1000x64xf32>, none) -> tensor<32x64x1000xf32>
  return %3 : tensor<32x64x1000xf32>
}
