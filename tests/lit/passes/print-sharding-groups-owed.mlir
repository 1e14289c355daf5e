// RUN: cleave-opt %s --infer-types --print-sharding-groups -o /dev/null | FileCheck %s
// What a split owes is printed, wherever the split tensors go.

// A sum of a tensor and its transpose splits one dimension, and needs the operand whole that is split in the other.
// CHECK: sharding group of w dim 0: 4 parts, {{.*}} 1 all-gathers, 0 reshards, 1 outputs
// CHECK-NEXT: weight w dim 0
// CHECK-NEXT: gather operand 1 of aten.add.Tensor
// CHECK-NEXT: output 0
// CHECK: sharding group of w dim 1: 4 parts, {{.*}} 1 all-gathers, 0 reshards, 1 outputs
func.func @transposed() -> !cleave.tensor {
  %w = cleave.param "w" {role = "parameter"} : tensor<4x4xf32>
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.relu(%w) : (tensor<4x4xf32>) -> !cleave.tensor
  %1 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  %2 = aten.relu(%1) : (!cleave.tensor) -> !cleave.tensor
  %r = aten.neg(%2) : (!cleave.tensor) -> !cleave.tensor
  %t = aten.transpose.int(%w, %zero, %one) : (tensor<4x4xf32>, i64, i64) -> !cleave.tensor
  %s = aten.add.Tensor(%t, %r, %one) : (!cleave.tensor, !cleave.tensor, i64) -> !cleave.tensor
  return %s : !cleave.tensor
}

// A bias that is not split is added by one rank.
// CHECK: sharding group of up dim 0: 8 parts, {{.*}} 1 all-reduces, 0 all-gathers, 0 reshards, 0 outputs
// CHECK: all-reduce aten.linear
// CHECK-NEXT: add once operand 2 of aten.linear
func.func @bias(%x: tensor<4x6xf32>) -> !cleave.tensor {
  %up = cleave.param "up" {role = "parameter"} : tensor<8x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x8xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%0, %down, %b) : (!cleave.tensor, tensor<6x8xf32>, tensor<6xf32>) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// Products with vectors and plain sums are sums of parts.
// CHECK: sharding group of m dim 1: 8 parts, {{.*}} 1 all-reduces, 0 all-gathers
// CHECK: all-reduce aten.mv
// CHECK: sharding group of s dim 1: 6 parts, {{.*}} 1 all-reduces, 0 all-gathers
// CHECK: all-reduce aten.sum.dim_IntList
func.func @vectors(%x: tensor<8xf32>) -> (!cleave.tensor, !cleave.tensor) {
  %m = cleave.param "m" {role = "parameter"} : tensor<3x8xf32>
  %w = cleave.param "s" {role = "parameter"} : tensor<5x6xf32>
  %dims = cleave.constant([1]) : !cleave.list<i64>
  %no = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.mv(%m, %x) : (tensor<3x8xf32>, tensor<8xf32>) -> !cleave.tensor
  %1 = aten.sum.dim_IntList(%w, %dims, %no, %none) : (tensor<5x6xf32>, !cleave.list<i64>, i1, none) -> !cleave.tensor
  return %0, %1 : !cleave.tensor, !cleave.tensor
}
