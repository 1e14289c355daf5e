// RUN: cleave-opt %s --print-sharding-groups -o /dev/null | FileCheck %s
// What cannot be split is left out.

// Six tokens make the view one of rows by chance: of other numbers of tokens it takes every part of a row.
// CHECK: sharding group of named dim 0: 6 parts, 2 tensors, 0 all-reduces, 1 all-gathers, 0 reshards, 0 outputs
// CHECK-NEXT: weight named dim 0, first half 0:3
// CHECK-NEXT: gather operand 0 of aten.reshape
func.func @named(%x: tensor<?x4xf32, #cleave.layout<dims = ["n", "4"]>>)
    -> tensor<6x?xf32, #cleave.layout<dims = ["6", "n"]>> attributes {cleave.symbols = {n = 6}} {
  %w = cleave.param "named" {role = "parameter"} : tensor<6x4xf32>
  %none = cleave.constant(unit) : none
  %sizes = cleave.constant([6, -1]) : !cleave.list<i64>
  %0 = aten.linear(%x, %w, %none) : (tensor<?x4xf32, #cleave.layout<dims = ["n", "4"]>>, tensor<6x4xf32>, none)
      -> tensor<?x6xf32, #cleave.layout<dims = ["n", "6"]>>
  %1 = aten.reshape(%0, %sizes) : (tensor<?x6xf32, #cleave.layout<dims = ["n", "6"]>>, !cleave.list<i64>)
      -> tensor<6x?xf32, #cleave.layout<dims = ["6", "n"]>>
  return %1 : tensor<6x?xf32, #cleave.layout<dims = ["6", "n"]>>
}

// Positions that alternate are printed to the last.
// CHECK: sharding group of long dim 0
// CHECK-NEXT: first half 0:2 {{.*}} 76:78{{$}}
func.func @long() -> tensor<20x2x2xf32> {
  %w = cleave.param "long" {role = "parameter"} : tensor<80xf32>
  %sizes = cleave.constant([20, 2, 2]) : !cleave.list<i64>
  %dims = cleave.constant([0, 2]) : !cleave.list<i64>
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.view(%w, %sizes) : (tensor<80xf32>, !cleave.list<i64>) -> tensor<20x2x2xf32>
  %1 = aten.softmax.int(%0, %zero, %none) : (tensor<20x2x2xf32>, i64, none) -> tensor<20x2x2xf32>
  return %1 : tensor<20x2x2xf32>
}

// Nothing is said of weights without a dimension that has two positions.
// CHECK-NOT: sharding group
func.func @none(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %w = cleave.param "one" {role = "parameter"} : tensor<1x1xf32>
  %b = cleave.param "scalar" {role = "parameter"} : tensor<f32>
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x1xf32>, tensor<1x1xf32>) -> tensor<4x1xf32>
  %1 = aten.mul.Tensor(%0, %b) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %1 : tensor<4x1xf32>
}
