// RUN: cleave-opt %s --split-input-file --infer-types --propagate-sharding | FileCheck %s
// What is split with the weights that say so.

// A width of 9 over two ranks: 4 and 5 of it, in the bias and in the other weight too. The sum is whole.
// CHECK-LABEL: func.func @mlp
// CHECK: cleave.param "up" {cleave.shardings = [#cleave.sharding<0, [0, 4], [4, 5]>]
// CHECK: cleave.param "bias" {cleave.shardings = [#cleave.sharding<0, [0, 4], [4, 5]>]
// CHECK: cleave.param "down" {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 5]>]
// CHECK: aten.linear({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 5]>]}
// CHECK: aten.relu({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 5]>]}
// CHECK: aten.linear({{[^)]*}}) :
func.func @mlp(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %bias = cleave.param "bias" {role = "parameter"} : tensor<9xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x9xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %bias) : (tensor<4x6xf32>, tensor<9x6xf32>, tensor<9xf32>) -> !cleave.tensor
  %1 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  %2 = aten.linear(%1, %down, %none) : (!cleave.tensor, tensor<6x9xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// -----

// GPT-2's fused weight: three heads of 2 over two ranks, one and two of each of its three parts.
// CHECK-LABEL: func.func @fused
// CHECK: cleave.param "qkv" {cleave.shardings = [#cleave.sharding<1, [0, 2, 6, 2, 12, 2], [2, 4, 8, 4, 14, 4]>]
// CHECK: cleave.param "bias" {cleave.shardings = [#cleave.sharding<0, [0, 2, 6, 2, 12, 2], [2, 4, 8, 4, 14, 4]>]
// CHECK: cleave.param "out" {cleave.shardings = [#cleave.sharding<0, [0, 2], [2, 4]>]
// CHECK: aten.split.Tensor({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 2], [2, 4]>, #cleave.sharding<1, [0, 2], [2, 4]>, #cleave.sharding<1, [0, 2], [2, 4]>]}
// CHECK: aten.scaled_dot_product_attention({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 1], [1, 2]>]}
func.func @fused(%x: tensor<10x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %qkv = cleave.param "qkv" {role = "parameter"} : tensor<6x18xf32>
  %bias = cleave.param "bias" {role = "parameter"} : tensor<18xf32>
  %out = cleave.param "out" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %never = cleave.constant(0.0 : f64) : f64
  %width = cleave.constant(6 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %heads = cleave.constant([2, 5, 3, 2]) : !cleave.list<i64>
  %rows = cleave.constant([10, 6]) : !cleave.list<i64>
  %0 = aten.addmm(%bias, %x, %qkv, %one, %one) : (tensor<18xf32>, tensor<10x6xf32>, tensor<6x18xf32>, i64, i64) -> !cleave.tensor
  %1 = aten.split.Tensor(%0, %width, %one) : (!cleave.tensor, i64, i64) -> !cleave.list<!cleave.tensor>
  %2:3 = cleave.unpack %1 : (!cleave.list<!cleave.tensor>) -> (!cleave.tensor, !cleave.tensor, !cleave.tensor)
  %q0 = aten.view(%2#0, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %k0 = aten.view(%2#1, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %v0 = aten.view(%2#2, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %q = aten.transpose.int(%q0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %k = aten.transpose.int(%k0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %v = aten.transpose.int(%v0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %3 = aten.scaled_dot_product_attention(%q, %k, %v, %none, %never, %no, %none, %no)
      : (!cleave.tensor, !cleave.tensor, !cleave.tensor, none, f64, i1, none, i1) -> !cleave.tensor
  %4 = aten.transpose.int(%3, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %5 = aten.reshape(%4, %rows) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %6 = aten.mm(%5, %out) : (!cleave.tensor, tensor<6x6xf32>) -> !cleave.tensor
  return %6 : !cleave.tensor
}

// -----

// Two heads of keys for eight of queries, over four ranks: neighbours have the same head of keys.
// CHECK-LABEL: func.func @grouped
// CHECK: cleave.param "q" {cleave.shardings = [#cleave.sharding<0, [0, 4], [4, 4], [8, 4], [12, 4]>]
// CHECK: cleave.param "k" {cleave.shardings = [#cleave.sharding<0, [0, 2], [0, 2], [2, 2], [2, 2]>]
// CHECK: cleave.param "out" {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 4], [8, 4], [12, 4]>]
// CHECK: aten.view({{.*}}) {cleave.shardings = [#cleave.sharding<2, [0, 1], [0, 1], [1, 1], [1, 1]>]}
// CHECK: aten.scaled_dot_product_attention({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 2], [2, 2], [4, 2], [6, 2]>]}
func.func @grouped(%x: tensor<2x5x6xf32>) -> !cleave.tensor attributes {cleave.tp = 4 : i64} {
  %wq = cleave.param "q" {role = "parameter"} : tensor<16x6xf32>
  %wk = cleave.param "k" {role = "parameter"} : tensor<4x6xf32>
  %wo = cleave.param "out" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 1>>} : tensor<6x16xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %yes = cleave.constant(true) : i1
  %never = cleave.constant(0.0 : f64) : f64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %heads = cleave.constant([2, 5, 8, 2]) : !cleave.list<i64>
  %groups = cleave.constant([2, 5, 2, 2]) : !cleave.list<i64>
  %rows = cleave.constant([2, 5, 16]) : !cleave.list<i64>
  %0 = aten.linear(%x, %wq, %none) : (tensor<2x5x6xf32>, tensor<16x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%x, %wk, %none) : (tensor<2x5x6xf32>, tensor<4x6xf32>, none) -> !cleave.tensor
  %q0 = aten.view(%0, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %k0 = aten.view(%1, %groups) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %q = aten.transpose.int(%q0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %k = aten.transpose.int(%k0, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %3 = aten.scaled_dot_product_attention(%q, %k, %k, %none, %never, %no, %none, %yes)
      : (!cleave.tensor, !cleave.tensor, !cleave.tensor, none, f64, i1, none, i1) -> !cleave.tensor
  %4 = aten.transpose.int(%3, %one, %two) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %5 = aten.reshape(%4, %rows) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %6 = aten.linear(%5, %wo, %none) : (!cleave.tensor, tensor<6x16xf32>, none) -> !cleave.tensor
  return %6 : !cleave.tensor
}

// -----

// Channels go through norms of channels and of groups of them: of two groups each rank has one.
// CHECK-LABEL: func.func @channels
// CHECK: cleave.param "first" {cleave.shardings = [#cleave.sharding<0, [0, 3], [3, 3]>]
// CHECK: aten.batch_norm({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 3], [3, 3]>]}
// CHECK: aten.conv1d({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 3], [3, 3]>]}
// CHECK: aten.group_norm({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 3], [3, 3]>]}
func.func @channels(%x: tensor<2x4x5xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "first" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x4x1xf32>
  %mean = cleave.param "mean" {role = "buffer"} : tensor<6xf32>
  %var = cleave.param "var" {role = "buffer"} : tensor<6xf32>
  %d = cleave.param "depthwise" {role = "parameter"} : tensor<6x1x3xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %tenth = cleave.constant(0.1 : f64) : f64
  %zero = cleave.constant([0]) : !cleave.list<i64>
  %one = cleave.constant([1]) : !cleave.list<i64>
  %1 = cleave.constant(1 : i64) : i64
  %2 = cleave.constant(2 : i64) : i64
  %6 = cleave.constant(6 : i64) : i64
  %a = aten.conv1d(%x, %w, %none, %one, %zero, %one, %1)
      : (tensor<2x4x5xf32>, tensor<6x4x1xf32>, none, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, i64) -> !cleave.tensor
  %b = aten.batch_norm(%a, %none, %none, %mean, %var, %no, %tenth, %tenth, %no)
      : (!cleave.tensor, none, none, tensor<6xf32>, tensor<6xf32>, i1, f64, f64, i1) -> !cleave.tensor
  %c = aten.conv1d(%b, %d, %none, %one, %one, %one, %6)
      : (!cleave.tensor, tensor<6x1x3xf32>, none, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, i64) -> !cleave.tensor
  %e = aten.group_norm(%c, %2, %none, %none, %tenth, %no) : (!cleave.tensor, i64, none, none, f64, i1) -> !cleave.tensor
  return %e : !cleave.tensor
}

// -----

// What an earlier seed has split stays so, and a class that is cut ends at its weight.
// CHECK-LABEL: func.func @order
// CHECK: cleave.param "second" {cleave.shardings = [#cleave.sharding<1, [0, 3], [3, 3]>]
// CHECK: cleave.param "first" {cleave.shardings = [#cleave.sharding<0, [0, 3], [3, 3]>]
// CHECK: cleave.param "cut" {cleave.shardings = [#cleave.sharding<0, [0, 3], [3, 3]>]
// CHECK: aten.linear({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 3], [3, 3]>]}
// CHECK: aten.linear({{[^)]*}}) :
// CHECK: aten.linear({{[^)]*}}) :
func.func @order(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %b = cleave.param "second" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0, order = 1>>} : tensor<4x6xf32>
  %a = cleave.param "first" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %c = cleave.param "cut" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0, order = 2, weight_only = true>>} : tensor<6x4xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %a, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%0, %b, %none) : (!cleave.tensor, tensor<4x6xf32>, none) -> !cleave.tensor
  %2 = aten.linear(%1, %c, %none) : (!cleave.tensor, tensor<6x4xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}
