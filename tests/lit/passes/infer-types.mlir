// RUN: cleave-opt %s --infer-types | FileCheck %s
// Types come from running the function without data.

// CHECK-LABEL: func.func @static(
// CHECK-SAME: -> tensor<4x16xf32> {
// CHECK: aten.linear({{.*}}) : {{.*}} -> tensor<4x16xf32>
func.func @static(%x: tensor<4x8xf32>) -> !cleave.tensor {
  %w = cleave.param "w" {role = "parameter"} : tensor<16x8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<16x8xf32>, none) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// The result's dtype is the operator's to decide.
// CHECK-LABEL: func.func @dtypes(
// CHECK-SAME: -> (tensor<2xi1>, tensor<2xi64>)
func.func @dtypes(%x: tensor<2xf32>) -> (!cleave.tensor, !cleave.tensor) {
  %long = cleave.constant(4 : i64) : i64
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.isnan(%x) : (tensor<2xf32>) -> !cleave.tensor
  %1 = aten.to.dtype(%x, %long, %false, %false, %none) : (tensor<2xf32>, i64, i1, i1, none) -> !cleave.tensor
  return %0, %1 : !cleave.tensor, !cleave.tensor
}

// A wrong type is corrected.
// CHECK-LABEL: func.func @corrected(
// CHECK: aten.relu({{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
func.func @corrected(%x: tensor<2xf32>) -> tensor<3xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Dimensions of the inputs that have names stay names, and what is computed from them is an expression.
// CHECK-LABEL: func.func @named_dimensions(
// CHECK: aten.reshape({{.*}} -> tensor<?xf32, #cleave.layout<dims = ["8*batch*seq"]>>
// CHECK: aten.slice.Tensor({{.*}} -> tensor<?x?x8xf32,
// CHECK-SAME: #cleave.layout<dims = ["batch", "seq - 1", "8"], strides = ["8*seq", "8", "1"]>>
func.func @named_dimensions(%x: tensor<?x?x8xf32, #cleave.layout<dims = ["batch", "seq", "8"]>>)
    -> (!cleave.tensor, !cleave.tensor) attributes {cleave.symbols = {batch = 3, seq = 5}} {
  %flat = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.reshape(%x, %flat) : (tensor<?x?x8xf32, #cleave.layout<dims = ["batch", "seq", "8"]>>, !cleave.list<i64>)
      -> !cleave.tensor
  %1 = cleave.constant(1 : i64) : i64
  %to = cleave.constant(9223372036854775807 : i64) : i64
  %rest = aten.slice.Tensor(%x, %1, %1, %to, %1)
      : (tensor<?x?x8xf32, #cleave.layout<dims = ["batch", "seq", "8"]>>, i64, i64, i64, i64) -> !cleave.tensor
  return %0, %rest : !cleave.tensor, !cleave.tensor
}

// Strides are written where they are not row-major, and read from the inputs.
// CHECK-LABEL: func.func @strides(
// CHECK: aten.t({{.*}} -> tensor<8x4xf32, #cleave.layout<strides = ["1", "8"]>>
// CHECK: aten.t({{.*}} -> tensor<4x8xf32>
func.func @strides(%x: tensor<4x8xf32>) -> !cleave.tensor {
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> !cleave.tensor
  %1 = aten.t(%0) : (!cleave.tensor) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// A list's items have their own types.
// CHECK-LABEL: func.func @items(
// CHECK: cleave.unpack {{.*}} -> (tensor<2xf32>, tensor<3xf32>)
func.func @items(%x: tensor<5xf32>) -> (!cleave.tensor, !cleave.tensor) {
  %sizes = cleave.constant([2, 3]) : !cleave.list<i64>
  %0 = cleave.constant(0 : i64) : i64
  %list = aten.split_with_sizes(%x, %sizes, %0) : (tensor<5xf32>, !cleave.list<i64>, i64) -> !cleave.list<!cleave.tensor>
  %items:2 = cleave.unpack %list : (!cleave.list<!cleave.tensor>) -> (!cleave.tensor, !cleave.tensor)
  return %items#0, %items#1 : !cleave.tensor, !cleave.tensor
}

// Both branches agree on the shape, so it is known whichever is taken.
// CHECK-LABEL: func.func @branches(
// CHECK: cleave.if {{.*}} : tensor<2xf32>
func.func @branches(%x: tensor<2xf32>, %c: i1) -> !cleave.tensor {
  %0 = cleave.if %c : !cleave.tensor {
    %1 = aten.relu(%x) : (tensor<2xf32>) -> !cleave.tensor
    cleave.yield %1 : !cleave.tensor
  } else {
    %1 = aten.tanh(%x) : (tensor<2xf32>) -> !cleave.tensor
    cleave.yield %1 : !cleave.tensor
  }
  return %0 : !cleave.tensor
}

// A loop whose length is in sight is followed.
// CHECK-LABEL: func.func @loops(
// CHECK: %[[R:.*]] = cleave.loop({{.*}}) : (tensor<1xf32>) -> tensor<8xf32>
// CHECK: return %[[R]] : tensor<8xf32>
func.func @loops(%x: tensor<1xf32>) -> !cleave.tensor {
  %three = cleave.constant(3 : i64) : i64
  %true = cleave.constant(true) : i1
  %zero = cleave.constant(0 : i64) : i64
  %0 = cleave.loop(%three, %true, %x) : (tensor<1xf32>) -> !cleave.tensor {
  ^bb0(%i: i64, %carried: !cleave.tensor):
    %two = cleave.list(%carried, %carried) : (!cleave.tensor, !cleave.tensor) -> !cleave.list<!cleave.tensor>
    %1 = aten.cat(%two, %zero) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
    cleave.yield %true, %1 : i1, !cleave.tensor
  }
  return %0 : !cleave.tensor
}

// Stages' arguments have the types of what flows into them.
// CHECK-LABEL: func.func @stages(
// CHECK: ^bb0(%{{.*}}: tensor<2xf32>)
func.func @stages(%x: tensor<2xf32>) -> !cleave.tensor {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> !cleave.tensor
  %1 = cleave.stage 0(%0) : (!cleave.tensor) -> !cleave.tensor {
  ^bb0(%inside: !cleave.tensor):
    %2 = aten.tanh(%inside) : (!cleave.tensor) -> !cleave.tensor
    cleave.yield %2 : !cleave.tensor
  }
  return %1 : !cleave.tensor
}

// A length that is halved and doubled is even; that of the other dimension is free.
// CHECK-LABEL: func.func @even(
// CHECK-SAME: cleave.size_limits = {seq = #cleave.size_limit<divisible_by = 2>}
// CHECK: aten.add.Tensor{{.*}} -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "seq"]>>
!even = tensor<?x?xf32, #cleave.layout<dims = ["batch", "seq"]>>
func.func @even(%x: !even) -> !cleave.tensor attributes {cleave.symbols = {batch = 2 : i64, seq = 8 : i64}} {
  %kernel = cleave.constant([2]) : !cleave.list<i64>
  %none = cleave.constant([]) : !cleave.list<i64>
  %zero = cleave.constant([0]) : !cleave.list<i64>
  %dilation = cleave.constant([1]) : !cleave.list<i64>
  %false = cleave.constant(false) : i1
  %one = cleave.constant(1 : i64) : i64
  %half = aten.max_pool1d(%x, %kernel, %none, %zero, %dilation, %false)
      : (!even, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, i1) -> !cleave.tensor
  %halves = cleave.list(%half, %half) : (!cleave.tensor, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %whole = aten.cat(%halves, %one) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %sum = aten.add.Tensor(%x, %whole, %one) : (!even, !cleave.tensor, i64) -> !cleave.tensor
  return %sum : !cleave.tensor
}

// A window of 8 takes no fewer positions than 8, and what it leaves is rounded down.
// CHECK-LABEL: func.func @window(
// CHECK-SAME: cleave.size_limits = {seq = #cleave.size_limit<min = 8>}
// CHECK: aten.avg_pool1d{{.*}} -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "(seq - 5) floordiv 3"]>>
func.func @window(%x: !even) -> !cleave.tensor attributes {cleave.symbols = {batch = 2 : i64, seq = 9 : i64}} {
  %kernel = cleave.constant([8]) : !cleave.list<i64>
  %stride = cleave.constant([3]) : !cleave.list<i64>
  %padding = cleave.constant([0]) : !cleave.list<i64>
  %false = cleave.constant(false) : i1
  %true = cleave.constant(true) : i1
  %0 = aten.avg_pool1d(%x, %kernel, %stride, %padding, %false, %true)
      : (!even, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, i1, i1) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// A table of 8 positions, of which the first are taken, ends there.
// CHECK-LABEL: func.func @table(
// CHECK-SAME: cleave.size_limits = {seq = #cleave.size_limit<max = 8>}
func.func @table(%x: !even) -> !cleave.tensor attributes {cleave.symbols = {batch = 2 : i64, seq = 6 : i64}} {
  %table = cleave.param "positions" {role = "parameter"} : tensor<8xf32>
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %seq = aten.size.int(%x, %one) : (!even, i64) -> i64
  %taken = aten.slice.Tensor(%table, %zero, %zero, %seq, %one) : (tensor<8xf32>, i64, i64, i64, i64) -> !cleave.tensor
  %0 = aten.add.Tensor(%x, %taken, %one) : (!even, !cleave.tensor, i64) -> !cleave.tensor
  return %0 : !cleave.tensor
}
