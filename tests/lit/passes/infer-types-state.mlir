// RUN: cleave-opt %s --infer-types | FileCheck %s
// A state has the type that it begins with where every request leaves it that type.

// CHECK-LABEL: func.func @keeps_its_type
// CHECK: cleave.read_state "h" from %{{.*}} -> tensor<4xf32>
// CHECK: aten.tanh({{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: cleave.write_state "h" %{{.*}} : tensor<4xf32>
func.func @keeps_its_type(%x: tensor<4xf32>) -> !cleave.tensor {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<4xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros : (tensor<4xf32>) -> tensor<4xf32>
  %0 = aten.add.Tensor(%h, %x, %one) : (tensor<4xf32>, tensor<4xf32>, i64) -> !cleave.tensor
  %1 = aten.tanh(%0) : (!cleave.tensor) -> !cleave.tensor
  cleave.write_state "h" %1 : !cleave.tensor
  return %1 : !cleave.tensor
}

// Of one that grows nothing is known, nor of what is made of it; of what is not, all.
// CHECK-LABEL: func.func @changes_its_type
// CHECK: %[[X:.*]] = aten.relu(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: cleave.read_state "h" from %{{.*}} : (tensor<0xf32>) -> !cleave.tensor
// CHECK: aten.cat({{.*}}) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
func.func @changes_its_type(%x: tensor<4xf32>) -> !cleave.tensor {
  %empty = cleave.param "h" {role = "buffer"} : tensor<0xf32>
  %zero = cleave.constant(0 : i64) : i64
  %0 = aten.relu(%x) : (tensor<4xf32>) -> !cleave.tensor
  %h = cleave.read_state "h" from %empty : (tensor<0xf32>) -> tensor<0xf32>
  %list = cleave.list(%h, %0) : (tensor<0xf32>, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %1 = aten.cat(%list, %zero) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  cleave.write_state "h" %1 : !cleave.tensor
  return %1 : !cleave.tensor
}

// The numbers that a state begins with are no numbers of the next request.
// CHECK-LABEL: func.func @numbers_change
// CHECK: aten.slice.Tensor({{.*}}) -> !cleave.tensor
func.func @numbers_change(%x: tensor<4xf32>) -> !cleave.tensor {
  %count = cleave.param "count" {role = "buffer", integers = array<i64: 3>} : tensor<i64>
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %state = cleave.read_state "count" from %count : (tensor<i64>) -> tensor<i64>
  %next = aten.add.Scalar(%state, %one, %one) : (tensor<i64>, i64, i64) -> !cleave.tensor
  cleave.write_state "count" %next : !cleave.tensor
  %n = aten.IntImplicit(%state) : (tensor<i64>) -> i64
  %0 = aten.slice.Tensor(%x, %zero, %zero, %n, %one) : (tensor<4xf32>, i64, i64, i64, i64) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// A branch that raises gives nothing: what comes out is the other's.
// CHECK-LABEL: func.func @raises
// CHECK: cleave.if %{{.*}} : tensor<4xf32>
// CHECK: aten.relu({{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @raises(%x: tensor<4xf32>, %bad: i1) -> !cleave.tensor {
  %message = cleave.constant("too bad") : !cleave.str
  %class = cleave.constant("builtins.ValueError") : !cleave.str
  %none = cleave.constant(unit) : none
  %0 = cleave.if %bad : !cleave.tensor {
    prim.RaiseException(%message, %class) : (!cleave.str, !cleave.str) -> ()
    cleave.yield %none : none
  } else {
    %1 = aten.tanh(%x) : (tensor<4xf32>) -> !cleave.tensor
    cleave.yield %1 : !cleave.tensor
  }
  %2 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// One with rows for the batch keeps them where each request leaves as many.
// CHECK-LABEL: func.func @keeps_rows
// CHECK: cleave.read_state "h" from %{{.*}} {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> tensor<?x8xf32
// CHECK: aten.tanh({{.*}}) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
// CHECK: cleave.read_state "g" from %{{.*}} : (tensor<1x8xf32>) -> !cleave.tensor
!rows = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @keeps_rows(%x: !rows) -> !cleave.tensor attributes {cleave.symbols = {batch = 4 : i64}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %h = cleave.read_state "h" from %zeros {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> !rows
  %0 = aten.add.Tensor(%h, %x, %one) : (!rows, !rows, i64) -> !cleave.tensor
  %1 = aten.tanh(%0) : (!cleave.tensor) -> !cleave.tensor
  cleave.write_state "h" %1 : !cleave.tensor
  %g = cleave.read_state "g" from %zeros {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> !rows
  %2 = aten.unsqueeze(%1, %zero) : (!cleave.tensor, i64) -> !cleave.tensor
  cleave.write_state "g" %2 : !cleave.tensor
  return %1 : !cleave.tensor
}
