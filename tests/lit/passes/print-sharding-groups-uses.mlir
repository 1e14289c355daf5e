// RUN: cleave-opt %s --print-sharding-groups -o /dev/null | FileCheck %s
// Whatever is no operator of the body needs its tensors whole.

// CHECK: sharding group of branch dim 0: 4 parts, 2 tensors, 0 all-reduces, 1 all-gathers, 0 reshards, 0 outputs
// CHECK: gather operand 0 of aten.neg at
func.func @branch(%c: i1) -> tensor<4x6xf32> {
  %w = cleave.param "branch" {role = "parameter"} : tensor<4x6xf32>
  %0 = aten.relu(%w) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = cleave.if %c : tensor<4x6xf32> {
    %2 = aten.neg(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    cleave.yield %2 : tensor<4x6xf32>
  } else {
    %zeros = cleave.param "zeros" {role = "parameter"} : tensor<4x6xf32>
    cleave.yield %zeros : tensor<4x6xf32>
  }
  return %1 : tensor<4x6xf32>
}

// CHECK: sharding group of yielded dim 0: {{.*}} 1 all-gathers, 0 reshards, 0 outputs
// CHECK: gather operand 0 of cleave.yield at
func.func @yield(%c: i1, %x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = cleave.param "yielded" {role = "parameter"} : tensor<4x6xf32>
  %0 = cleave.if %c : tensor<4x6xf32> {
    cleave.yield %w : tensor<4x6xf32>
  } else {
    cleave.yield %x : tensor<4x6xf32>
  }
  return %0 : tensor<4x6xf32>
}

// CHECK: sharding group of carried dim 0: {{.*}} 1 all-gathers, 0 reshards, 0 outputs
// CHECK: gather operand 2 of cleave.loop at
func.func @loop(%trips: i64, %c: i1) -> tensor<4x6xf32> {
  %w = cleave.param "carried" {role = "parameter"} : tensor<4x6xf32>
  %0 = cleave.loop(%trips, %c, %w) : (tensor<4x6xf32>) -> tensor<4x6xf32> {
  ^bb0(%i: i64, %x: tensor<4x6xf32>):
    %1 = aten.relu(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    cleave.yield %c, %1 : i1, tensor<4x6xf32>
  }
  return %0 : tensor<4x6xf32>
}

// Of what stands in a tuple, the item is returned; pieces that are taken as a list are cut from the whole.
// CHECK: sharding group of item dim 0: {{.*}} 0 all-gathers, 0 reshards, 1 outputs
// CHECK: output 0
// CHECK: sharding group of pieces dim 0: {{.*}} 1 all-gathers, 0 reshards, 0 outputs
// CHECK: gather operand 0 of aten.split.Tensor at
func.func @aggregates() -> (tuple<tensor<4x6xf32>, i64>, tensor<8x6xf32>) {
  %w = cleave.param "item" {role = "parameter"} : tensor<4x6xf32>
  %p = cleave.param "pieces" {role = "parameter"} : tensor<8x6xf32>
  %zero = cleave.constant(0 : i64) : i64
  %four = cleave.constant(4 : i64) : i64
  %0 = cleave.tuple(%w, %zero) : (tensor<4x6xf32>, i64) -> tuple<tensor<4x6xf32>, i64>
  %1 = aten.split.Tensor(%p, %four, %zero) : (tensor<8x6xf32>, i64, i64) -> !cleave.list<tensor<4x6xf32>>
  %2:2 = cleave.unpack %1 : (!cleave.list<tensor<4x6xf32>>) -> (tensor<4x6xf32>, tensor<4x6xf32>)
  %3 = aten.cat(%1, %zero) : (!cleave.list<tensor<4x6xf32>>, i64) -> tensor<8x6xf32>
  return %0, %3 : tuple<tensor<4x6xf32>, i64>, tensor<8x6xf32>
}

// Every item of a list is split, not only the first.
// CHECK: sharding group of rows dim 1: 6 parts, {{.*}} 1 all-gathers, 0 reshards, 1 outputs
// CHECK: gather operand 0 of aten.softmax.int
func.func @items(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %w = cleave.param "rows" {role = "parameter"} : tensor<2x6xf32>
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.unbind.int(%w, %zero) : (tensor<2x6xf32>, i64) -> !cleave.list<tensor<6xf32>>
  %1:2 = cleave.unpack %0 : (!cleave.list<tensor<6xf32>>) -> (tensor<6xf32>, tensor<6xf32>)
  %2 = aten.softmax.int(%1#1, %zero, %none) : (tensor<6xf32>, i64, none) -> tensor<6xf32>
  return %1#0, %2 : tensor<6xf32>, tensor<6xf32>
}

// Behind a tensor whose size is in the data there may be any positions: what is joined with it is gathered.
// CHECK: sharding group of rows dim 0: 4 parts, 1 tensors, 0 all-reduces, 1 all-gathers
// CHECK-NEXT: weight rows dim 0
// CHECK-NEXT: gather operand 0 of cleave.list
func.func @joined_with_unknown(%x: tensor<6xi64>) -> !cleave.tensor {
  %rows = cleave.param "rows" {role = "parameter"} : tensor<4x1xi64>
  %zero = cleave.constant(0 : i64) : i64
  %found = aten.nonzero(%x) : (tensor<6xi64>) -> !cleave.tensor
  %both = cleave.list(%rows, %found) : (tensor<4x1xi64>, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %0 = aten.cat(%both, %zero) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  return %0 : !cleave.tensor
}
