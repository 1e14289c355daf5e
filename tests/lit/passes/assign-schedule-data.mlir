// RUN: cleave-opt %s --assign-schedule="ranks=2 dp=2 microbatches=0 batch=batch" | FileCheck %s
// RUN: cleave-opt %s --assign-schedule="ranks=2 dp=8" | FileCheck %s --check-prefix=MANY
// RUN: not cleave-opt %s --assign-schedule="ranks=2 dp=0" 2>&1 | FileCheck %s --check-prefix=NONE
// Data-parallel ranks share the batch: each has as many micro-batches as pay, of its own samples, on devices of its own.
// NONE: found dp=0, expected 1 to 65536

!x = tensor<?x512x2048xf32, #cleave.layout<dims = ["batch", "512", "2048"]>>
!w = tensor<2048x2048xf32>

// CHECK-LABEL: func.func @balanced(
// CHECK-SAME: cleave.schedule = #cleave.schedule<pipeline_ranks = 2, data_ranks = 2, microbatches = 4, batch = "batch",
// CHECK-SAME: microbatch_seconds = [0.04295{{[0-9]+}}, 0.04295{{[0-9]+}}]>
// CHECK-SAME: devices = ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
// MANY-LABEL: func.func @balanced(
// MANY-SAME: #cleave.schedule<pipeline_ranks = 2, data_ranks = 8, batch = "batch",
// MANY-SAME: microbatch_seconds = [0.04295{{[0-9]+}}, 0.04295{{[0-9]+}}]>
func.func @balanced(%x: !x) -> !x attributes {cleave.symbols = {batch = 8}} {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) {cleave.stage_index = 0 : i64} : (!x, !w, none) -> !x
  %1 = aten.linear(%0, %w, %none) {cleave.stage_index = 1 : i64} : (!x, !w, none) -> !x
  return %1 : !x
}
