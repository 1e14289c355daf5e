// RUN: cleave-opt %s --fold-sizes | FileCheck %s
// Size arithmetic becomes constants and named sizes, and what made it goes.

!ids = tensor<?x?xi64, #cleave.layout<dims = ["batch", "seq"]>>

// CHECK-LABEL: func.func @named(
// CHECK-DAG: %[[BATCH:.*]] = cleave.size "batch"
// CHECK-DAG: %[[PAIRS:.*]] = cleave.size "(seq*seq - seq) floordiv 2"
// CHECK-NOT: aten
// CHECK: return %[[BATCH]], %[[PAIRS]]
func.func @named(%ids: !ids) -> (i64, i64) attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %batch = aten.size.int(%ids, %zero) : (!ids, i64) -> i64
  %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
  %others = aten.sub.int(%seq, %one) : (i64, i64) -> i64
  %product = aten.mul.int(%seq, %others) : (i64, i64) -> i64
  %pairs = aten.floordiv.int(%product, %two) : (i64, i64) -> i64
  return %batch, %pairs : i64, i64
}

// What windows of 3 with a stride of 2, and then of 4 with one of 4, leave.
// CHECK-LABEL: func.func @rounded(
// CHECK: cleave.size "(seq - 1) floordiv 8"
func.func @rounded(%ids: !ids) -> i64 attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %four = cleave.constant(4 : i64) : i64
  %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
  %rest = aten.sub.int(%seq, %one) : (i64, i64) -> i64
  %first = aten.floordiv.int(%rest, %two) : (i64, i64) -> i64
  %second = aten.floordiv.int(%first, %four) : (i64, i64) -> i64
  return %second : i64
}

// CHECK-LABEL: func.func @static(
// CHECK: %[[N:.*]] = cleave.constant(8 : i64) : i64
// CHECK-NEXT: return %[[N]]
func.func @static(%x: tensor<4x8xf32>) -> i64 {
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.size.int(%x, %one) : (tensor<4x8xf32>, i64) -> i64
  return %0 : i64
}

// A trace does its arithmetic in 0-d tensors.
// CHECK-LABEL: func.func @through_tensors(
// CHECK: %[[N:.*]] = cleave.size "12*batch"
// CHECK-NOT: aten
// CHECK: return %[[N]]
func.func @through_tensors(%ids: !ids) -> i64 attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %zero = cleave.constant(0 : i64) : i64
  %heads = cleave.param "constants.0" {role = "constant", integers = array<i64: 12>} : tensor<i64>
  %batch = aten.size.int(%ids, %zero) : (!ids, i64) -> i64
  %0 = prim.NumToTensor.Scalar(%batch) : (i64) -> !cleave.tensor
  %1 = aten.mul.Tensor(%0, %heads) : (!cleave.tensor, tensor<i64>) -> !cleave.tensor
  %2 = aten.Int.Tensor(%1) : (!cleave.tensor) -> i64
  return %2 : i64
}

// CHECK-LABEL: func.func @lists(
// CHECK-DAG: %[[BATCH:.*]] = cleave.size "batch"
// CHECK-DAG: %[[SEQ:.*]] = cleave.size "seq"
// CHECK: %[[L:.*]] = cleave.list(%[[BATCH]], %[[SEQ]]) : (i64, i64) -> !cleave.list<i64>
// CHECK: return %[[L]]
func.func @lists(%ids: !ids) -> !cleave.list<i64> attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %0 = aten.size(%ids) : (!ids) -> !cleave.list<i64>
  return %0 : !cleave.list<i64>
}

// CHECK-LABEL: func.func @bools(
// CHECK: %[[T:.*]] = cleave.constant(true) : i1
// CHECK: return %[[T]]
func.func @bools(%ids: !ids) -> i1 attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %one = cleave.constant(1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
  %0 = aten.gt.int(%seq, %zero) : (i64, i64) -> i1
  return %0 : i1
}

// Sizes in regions too, at every iteration the same.
// CHECK-LABEL: func.func @regions(
// CHECK: cleave.loop
// CHECK-NOT: aten.size
// CHECK: %[[SEQ:.*]] = cleave.size "seq"
// CHECK: aten.add.int(%{{.*}}, %[[SEQ]])
func.func @regions(%ids: !ids, %n: i64) -> i64 attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %true = cleave.constant(true) : i1
  %0 = cleave.loop(%three, %true, %n) : (i64) -> i64 {
  ^bb0(%i: i64, %sum: i64):
    %seq = aten.size.int(%ids, %one) : (!ids, i64) -> i64
    %next = aten.add.int(%sum, %seq) : (i64, i64) -> i64
    cleave.yield %true, %next : i1, i64
  }
  return %0 : i64
}

// A number that is an integer here is one to the operator that takes it.
// CHECK-LABEL: func.func @numbers(
// CHECK-NOT: aten.ScalarImplicit
// CHECK: cleave.size "batch"
// CHECK: aten.arange({{.*}}) : (i64,
func.func @numbers(%ids: !ids) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
    attributes {cleave.symbols = {batch = 4, seq = 128}} {
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  %cpu = cleave.constant("cpu") : !cleave.device
  %false = cleave.constant(false) : i1
  %batch = aten.size.int(%ids, %zero) : (!ids, i64) -> i64
  %tensor = prim.NumToTensor.Scalar(%batch) : (i64) -> tensor<i64>
  %number = aten.ScalarImplicit(%tensor) : (tensor<i64>) -> !cleave.number
  %0 = aten.arange(%number, %none, %none, %cpu, %false)
      : (!cleave.number, none, none, !cleave.device, i1) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  return %0 : tensor<?xi64, #cleave.layout<dims = ["batch"]>>
}
