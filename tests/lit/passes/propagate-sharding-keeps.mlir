// RUN: cleave-opt %s --split-input-file --infer-types --propagate-sharding | FileCheck %s
// What is no operator's own result is whole, whatever is split around it.

// Without a tensor group nothing is split.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: cleave.shardings
func.func @alone(%x: tensor<4x6xf32>) -> !cleave.tensor {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// Results of control flow and states.
// CHECK-LABEL: func.func @structure
// CHECK: cleave.param "w" {cleave.shardings
// CHECK: cleave.if
// CHECK-NOT: cleave.shardings
// CHECK: } else {
// CHECK: cleave.read_state "s" from %{{.*}} : (
// CHECK: aten.add.Tensor({{.*}}) {cleave.shardings
func.func @structure(%x: tensor<4x6xf32>, %c: i1) -> tensor<4x6xf32> attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  %1 = cleave.if %c : tensor<4x6xf32> {
    cleave.yield %x : tensor<4x6xf32>
  } else {
    cleave.yield %0 : tensor<4x6xf32>
  }
  %first = cleave.param "first" {role = "buffer"} : tensor<4x6xf32>
  %s = cleave.read_state "s" from %first : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = aten.add.Tensor(%0, %1, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  %3 = aten.add.Tensor(%2, %s, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  cleave.write_state "s" %3 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// -----

// Pieces in a list that is taken as it is, or by a number that only running tells. What is made of such a list may be wanted
// split; it is made whole.
// CHECK-LABEL: func.func @lists
// CHECK: aten.linear({{.*}}) {cleave.shardings
// CHECK: aten.chunk({{[^)]*}}) :
// CHECK: aten.cat(
// CHECK: aten.chunk({{[^)]*}}) :
// CHECK: aten.__getitem__.t({{[^)]*}}) :
func.func @lists(%x: tensor<4x6xf32>) -> (!cleave.tensor, !cleave.tensor) attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %last = cleave.constant(-1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> !cleave.tensor
  %1 = aten.chunk(%0, %two, %one) : (!cleave.tensor, i64, i64) -> !cleave.list<!cleave.tensor>
  %2 = aten.cat(%1, %one) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %3 = aten.chunk(%0, %two, %one) : (!cleave.tensor, i64, i64) -> !cleave.list<!cleave.tensor>
  %4 = aten.__getitem__.t(%3, %last) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %5 = aten.add.Tensor(%2, %0, %one) : (!cleave.tensor, !cleave.tensor, i64) -> !cleave.tensor
  return %5, %4 : !cleave.tensor, !cleave.tensor
}
