// RUN: cleave-opt %s --assign-schedule="ranks=2 microbatches=4" --split-input-file --verify-diagnostics
// The first operation that does not pass the batch is named.

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @softmax_over_samples(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.relu(%x) : (!x) -> !x
  // expected-error @below {{aten.softmax.int needs the whole of dimension batch, so micro-batches are not parts of it; use --microbatches 1}}
  %1 = aten.softmax.int(%0, %zero, %none) : (!x, i64, none) -> !x
  return %1 : !x
}

// -----

// Samples are the channels of one group.
!x = tensor<6x?x8xf32, #cleave.layout<dims = ["6", "batch", "8"]>>
func.func @group_of_samples(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %one = cleave.constant(1 : i64) : i64
  %none = cleave.constant(unit) : none
  %small = cleave.constant(1.0e-5 : f64) : f64
  %no = cleave.constant(false) : i1
  // expected-error @below {{aten.group_norm needs the whole of dimension batch}}
  %0 = aten.group_norm(%x, %one, %none, %none, %small, %no) : (!x, i64, none, none, f64, i1) -> !x
  return %0 : !x
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @mean_over_samples(%x: !x) -> tensor<8xf32> attributes {cleave.symbols = {batch = 4}} {
  %zero = cleave.constant([0]) : !cleave.list<i64>
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  // expected-error @below {{aten.mean.dim reduces over dimension batch}}
  %0 = aten.mean.dim(%x, %zero, %false, %none) : (!x, !cleave.list<i64>, i1, none) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @divides_by_the_batch(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  // expected-error @below {{aten.div.Scalar computes with the size of dimension batch}}
  %0 = aten.div.Scalar(%x, %size) : (!x, i64) -> !x
  return %0 : !x
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @every_pair(%x: !x) -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>>
    attributes {cleave.symbols = {batch = 4}} {
  %0 = aten.t(%x) : (!x) -> tensor<8x?xf32, #cleave.layout<dims = ["8", "batch"]>>
  // expected-error @below {{aten.mm takes every pair of positions in dimension batch}}
  %1 = aten.mm(%x, %0) : (!x, tensor<8x?xf32, #cleave.layout<dims = ["8", "batch"]>>)
      -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>>
  return %1 : tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>>
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @numbers_samples(%x: !x) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
    attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %cpu = cleave.constant("cpu") : !cleave.device
  %false = cleave.constant(false) : i1
  %0 = aten.arange(%size, %none, %none, %cpu, %false)
      : (i64, none, none, !cleave.device, i1) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  // expected-error @below {{aten.add.Scalar computes with positions in dimension batch}}
  %1 = aten.add.Scalar(%0, %one, %one) : (tensor<?xi64, #cleave.layout<dims = ["batch"]>>, i64, i64)
      -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  return %1 : tensor<?xi64, #cleave.layout<dims = ["batch"]>>
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @draws(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %none = cleave.constant(unit) : none
  // expected-error @below {{aten.rand_like draws random numbers, others for each part of dimension batch}}
  %0 = aten.rand_like(%x, %none, %none, %none, %none, %none) : (!x, none, none, none, none, none) -> !x
  return %0 : !x
}

// -----

// expected-error @below {{the model has no input with dimension batch}}
func.func @no_batch(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// expected-error @below {{the model gives numbers that count dimension batch}}
func.func @gives_numbers(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
    -> tensor<?xi64, #cleave.layout<dims = ["batch"]>> attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %cpu = cleave.constant("cpu") : !cleave.device
  %false = cleave.constant(false) : i1
  %0 = aten.arange(%size, %none, %none, %cpu, %false)
      : (i64, none, none, !cleave.device, i1) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  %1 = cleave.boundary %0 "numbers" output 0
      : (tensor<?xi64, #cleave.layout<dims = ["batch"]>>) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  return %1 : tensor<?xi64, #cleave.layout<dims = ["batch"]>>
}

// -----

// A size that is asked for inside a branch.
!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @divides_in_a_branch(%x: !x, %c: i1) -> !x attributes {cleave.symbols = {batch = 4}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %one = cleave.constant(1 : i64) : i64
  // expected-error @below {{cleave.if is control flow on dimension batch}}
  %0 = cleave.if %c : tensor<8xf32> {
    %size = cleave.size "batch"
    %1 = aten.div.Scalar(%w, %size) : (tensor<8xf32>, i64) -> tensor<8xf32>
    cleave.yield %1 : tensor<8xf32>
  } else {
    cleave.yield %w : tensor<8xf32>
  }
  %2 = aten.add.Tensor(%x, %0, %one) : (!x, tensor<8xf32>, i64) -> !x
  return %2 : !x
}

// -----

// Three rows a sample: row n is not of sample n.
!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
!rows = tensor<?x8xf32, #cleave.layout<dims = ["3*batch", "8"]>>
func.func @rows_of_others(%rows: !rows, %x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %cpu = cleave.constant("cpu") : !cleave.device
  %false = cleave.constant(false) : i1
  %0 = aten.arange(%size, %none, %none, %cpu, %false)
      : (i64, none, none, !cleave.device, i1) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  %1 = cleave.list(%0) : (tensor<?xi64, #cleave.layout<dims = ["batch"]>>) -> !cleave.list<!cleave.optional<!cleave.tensor>>
  // expected-error @below {{aten.index.Tensor needs the whole of dimension batch}}
  %2 = aten.index.Tensor(%rows, %1) : (!rows, !cleave.list<!cleave.optional<!cleave.tensor>>) -> !x
  return %2 : !x
}

// -----

// The view is right for a sequence of the traced length alone.
!x = tensor<?x?x8xf32, #cleave.layout<dims = ["batch", "seq", "8"]>>
!y = tensor<?x?x8xf32, #cleave.layout<dims = ["seq", "batch", "8"]>>
func.func @scrambles_other_sizes(%x: !x) -> !y attributes {cleave.symbols = {batch = 4, seq = 1}} {
  %batch = cleave.size "batch"
  %seq = cleave.size "seq"
  %eight = cleave.constant(8 : i64) : i64
  %shape = cleave.list(%seq, %batch, %eight) : (i64, i64, i64) -> !cleave.list<i64>
  // expected-error @below {{dimension batch}}
  %0 = aten.view(%x, %shape) : (!x, !cleave.list<i64>) -> !y
  return %0 : !y
}

// -----

// Which item is taken depends on how many samples there are.
!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @picks_by_size(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  %three = cleave.constant(3 : i64) : i64
  %scales = cleave.constant([1.0, 2.0, 3.0]) : !cleave.list<f64>
  %0 = aten.remainder.int(%size, %three) : (i64, i64) -> i64
  // expected-error @below {{aten.__getitem__.t computes with the size of dimension batch}}
  %1 = aten.__getitem__.t(%scales, %0) : (!cleave.list<f64>, i64) -> f64
  %2 = aten.mul.Scalar(%x, %1) : (!x, f64) -> !x
  return %2 : !x
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @keeps_state(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %zeros = cleave.param "last" {role = "buffer"} : tensor<8xf32>
  %one = cleave.constant(1 : i64) : i64
  // expected-error @below {{cleave.read_state "last" would pass from part to part of dimension batch, so micro-batches are not parts of it; use --microbatches 1}}
  %last = cleave.read_state "last" from %zeros : (tensor<8xf32>) -> tensor<8xf32>
  %0 = aten.add.Tensor(%x, %last, %one) : (!x, tensor<8xf32>, i64) -> !x
  cleave.write_state "last" %last : tensor<8xf32>
  return %0 : !x
}

// -----

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @keeps_positions(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %zero = cleave.param "at" {role = "buffer"} : tensor<1xi64>
  %batch = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %at = cleave.read_state "at" from %zero {batch_dim = 0 : i64} : (tensor<1xi64>) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  %0 = aten.arange(%batch, %none, %none, %none, %none) : (i64, none, none, none, none) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  // expected-error @below {{cleave.write_state keeps positions in dimension batch, so micro-batches are not parts of it}}
  cleave.write_state "at" %0 : tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  return %x : !x
}
