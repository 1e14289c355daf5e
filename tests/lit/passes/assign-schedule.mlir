// RUN: cleave-opt %s --assign-schedule="ranks=2 microbatches=4" | FileCheck %s
// RUN: cleave-opt %s --assign-schedule="ranks=2 microbatches=0" | FileCheck %s --check-prefix=AUTO
// RUN: cleave-opt %s --assign-schedule="ranks=2" | FileCheck %s --check-prefix=WHOLE
// RUN: cleave-opt %s --assign-schedule="ranks=2 machine=h100:8" | FileCheck %s --check-prefix=LIMITED
// The decision stands on the function; the batch must pass every operation.

!ids = tensor<?x8xi64, #cleave.layout<dims = ["batch", "8"]>>
!x = tensor<?x8x64xf32, #cleave.layout<dims = ["batch", "8", "64"]>>
!rows = tensor<?x64xf32, #cleave.layout<dims = ["8*batch", "64"]>>
!w = tensor<64x64xf32>

// Through a view that merges the batch with another dimension, and back.
// CHECK-LABEL: func.func @through_rows(
// CHECK-SAME: cleave.schedule = #cleave.schedule<pipeline_ranks = 2, microbatches = 4, batch = "batch"
// CHECK-SAME: cleave.target = #cleave.target<machine = "{{[0-9a-f]+}}", link = [5.000000e-06, 1.000000e+10]
// CHECK-SAME: threads = [1, 1]
// AUTO-LABEL: func.func @through_rows(
// AUTO-SAME: #cleave.schedule<pipeline_ranks = 2, microbatch_seconds
// LIMITED-LABEL: func.func @through_rows(
// LIMITED-SAME: memory_limits = [80000000000, 80000000000]
// WHOLE-LABEL: func.func @through_rows(
// WHOLE-NOT: memory_limits
// WHOLE-SAME: #cleave.schedule<pipeline_ranks = 2, microbatch_seconds
func.func @through_rows(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %rows = cleave.constant([-1, 64]) : !cleave.list<i64>
  %back = cleave.constant([-1, 8, 64]) : !cleave.list<i64>
  %0 = aten.view(%x, %rows) : (!x, !cleave.list<i64>) -> !rows
  %1 = aten.linear(%0, %w, %none) {cleave.stage_index = 0 : i64} : (!rows, !w, none) -> !rows
  %2 = aten.view(%1, %back) : (!rows, !cleave.list<i64>) -> !x
  return %2 : !x
}

// Two equal stages of much work: as many micro-batches as pay for their calls.
// A stage's 2 * 512 * 2048 * 2048 operations for a sample take 0.043 s, at 1e11 a second.
// AUTO-LABEL: func.func @balanced(
// AUTO-SAME: microbatches = 8, batch = "batch", microbatch_seconds = [0.04295{{[0-9]+}}, 0.04295{{[0-9]+}}]
// CHECK-LABEL: func.func @balanced(
// CHECK-SAME: microbatch_seconds = [0.0859{{[0-9]+}}, 0.0859{{[0-9]+}}]
!big = tensor<?x512x2048xf32, #cleave.layout<dims = ["batch", "512", "2048"]>>
!bigw = tensor<2048x2048xf32>
func.func @balanced(%x: !big) -> !big attributes {cleave.symbols = {batch = 8}} {
  %w = cleave.param "w" {role = "parameter"} : !bigw
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) {cleave.stage_index = 0 : i64} : (!big, !bigw, none) -> !big
  %1 = aten.linear(%0, %w, %none) {cleave.stage_index = 1 : i64} : (!big, !bigw, none) -> !big
  return %1 : !big
}

// What text says is not obeyed: of the machine, or of an obstacle.
// CHECK-LABEL: func.func @says_otherwise(
// CHECK-NOT: {{link_overrides|memory_limits|batch_obstacle}}
// CHECK: return
func.func @says_otherwise(%x: !x) -> !x
    attributes {cleave.symbols = {batch = 4}, cleave.schedule = #cleave.schedule<pipeline_ranks = 3, batch_obstacle = "a wall">,
                cleave.target = #cleave.target<link_overrides = [#cleave.link_override<0 -> 1, [1.0, 1.0]>],
                                               memory_limits = [1]>} {
  %0 = aten.relu(%x) {cleave.stage_index = 0 : i64} : (!x) -> !x
  return %0 : !x
}

// Samples that are looked up by their own number, as masks of transformers do.
// CHECK-LABEL: func.func @own_sample(
// CHECK-SAME: microbatches = 4
func.func @own_sample(%ids: !ids) -> tensor<?x8xi64, #cleave.layout<dims = ["batch", "8"]>>
    attributes {cleave.symbols = {batch = 4}} {
  %size = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %cpu = cleave.constant("cpu") : !cleave.device
  %false = cleave.constant(false) : i1
  %columns = cleave.param "columns" {role = "buffer"} : tensor<1x8xi64>
  %0 = aten.arange(%size, %none, %none, %cpu, %false)
      : (i64, none, none, !cleave.device, i1) -> tensor<?xi64, #cleave.layout<dims = ["batch"]>>
  %1 = aten.unsqueeze(%0, %one)
      : (tensor<?xi64, #cleave.layout<dims = ["batch"]>>, i64) -> tensor<?x1xi64, #cleave.layout<dims = ["batch", "1"]>>
  %2 = cleave.list(%1, %columns)
      : (tensor<?x1xi64, #cleave.layout<dims = ["batch", "1"]>>, tensor<1x8xi64>) -> !cleave.list<!cleave.optional<!cleave.tensor>>
  %3 = aten.index.Tensor(%ids, %2) : (!ids, !cleave.list<!cleave.optional<!cleave.tensor>>) -> !ids
  return %3 : !ids
}

// Parts of the batch have parts of a state with a row for each sample.
// CHECK-LABEL: func.func @keeps_rows(
// CHECK-SAME: microbatches = 4, batch = "batch"
!h = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @keeps_rows(%x: !h) -> !h attributes {cleave.symbols = {batch = 4}} {
  %zeros = cleave.param "h" {role = "buffer"} : tensor<1x8xf32>
  %one = cleave.constant(1 : i64) : i64
  %h = cleave.read_state "h" from %zeros {batch_dim = 0 : i64} : (tensor<1x8xf32>) -> !h
  %0 = aten.add.Tensor(%x, %h, %one) {cleave.stage_index = 0 : i64} : (!h, !h, i64) -> !h
  cleave.write_state "h" %0 : !h
  return %0 : !h
}
