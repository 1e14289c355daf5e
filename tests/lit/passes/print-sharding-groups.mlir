// RUN: cleave-opt %s --infer-types --print-sharding-groups -o /dev/null | FileCheck %s
// What is split together, and what that owes.

// Splitting the width of an MLP makes the first weight columns and the second rows, and owes one sum.
// CHECK: sharding group of fc.weight dim 0: 16 parts
// CHECK-NEXT: weight fc.weight dim 0, first half 0:8
// CHECK-NEXT: weight fc.bias dim 0, first half 0:8
// CHECK-NEXT: weight proj.weight dim 1, first half 0:8
// CHECK-NEXT: all-reduce aten.linear at
// CHECK-NOT: gather
// CHECK: sharding group of fc.weight dim 1: 8 parts
func.func @mlp(%x: tensor<4x8xf32>) -> !cleave.tensor {
  %fc = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xf32>
  %bias = cleave.param "fc.bias" {role = "parameter"} : tensor<16xf32>
  %proj = cleave.param "proj.weight" {role = "parameter"} : tensor<8x16xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %fc, %bias) : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> !cleave.tensor
  %1 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  %2 = aten.linear(%1, %proj, %none) : (!cleave.tensor, tensor<8x16xf32>, none) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// Queries, keys and values out of one weight: two heads of 4, whole heads in each of the three parts.
// CHECK: sharding group of qkv.weight dim 0: 2 parts
// CHECK-NEXT: weight qkv.weight dim 0, first half 0:4 8:12 16:20
// CHECK-NEXT: weight out.weight dim 1, first half 0:4
// CHECK-NEXT: all-reduce aten.linear at
// CHECK-NOT: gather
// CHECK: sharding group of qkv.weight dim 1: 8 parts
func.func @attention(%x: tensor<2x5x8xf32>) -> !cleave.tensor {
  %qkv = cleave.param "qkv.weight" {role = "parameter"} : tensor<24x8xf32>
  %out = cleave.param "out.weight" {role = "parameter"} : tensor<8x8xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %never = cleave.constant(0.0 : f64) : f64
  %width = cleave.constant(8 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %heads = cleave.constant([2, 5, 2, 4]) : !cleave.list<i64>
  %rows = cleave.constant([2, 5, 8]) : !cleave.list<i64>
  %0 = aten.linear(%x, %qkv, %none) : (tensor<2x5x8xf32>, tensor<24x8xf32>, none) -> !cleave.tensor
  %1 = aten.split.Tensor(%0, %width, %two) : (!cleave.tensor, i64, i64) -> !cleave.list<!cleave.tensor>
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
  %6 = aten.linear(%5, %out, %none) : (!cleave.tensor, tensor<8x8xf32>, none) -> !cleave.tensor
  return %6 : !cleave.tensor
}

// What a norm needs whole is gathered.
// CHECK: sharding group of in.weight dim 0: 8 parts
// CHECK: gather operand 0 of aten.layer_norm
func.func @norm(%x: tensor<4x8xf32>) -> !cleave.tensor {
  %in = cleave.param "in.weight" {role = "parameter"} : tensor<8x8xf32>
  %none = cleave.constant(unit) : none
  %shape = cleave.constant([8]) : !cleave.list<i64>
  %eps = cleave.constant(0.001 : f64) : f64
  %yes = cleave.constant(true) : i1
  %0 = aten.linear(%x, %in, %none) : (tensor<4x8xf32>, tensor<8x8xf32>, none) -> !cleave.tensor
  %1 = aten.layer_norm(%0, %shape, %none, %none, %eps, %yes)
      : (!cleave.tensor, !cleave.list<i64>, none, none, f64, i1) -> !cleave.tensor
  return %1 : !cleave.tensor
}
