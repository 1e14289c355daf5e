// RUN: echo '{"devices": [{"name": "a", "flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6, "memory_bytes": 33000}, {"name": "b", "flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6, "memory_bytes": 33000}], "link": {"latency_seconds": 1e-6, "bytes_per_second": 1e10}}' > %t.json
// RUN: cleave-opt %s --assign-stages=stages=2 | FileCheck %s --check-prefix=FAST
// RUN: cleave-opt %s --assign-stages="stages=2 machine=%t.json" | FileCheck %s --check-prefix=FITS
// RUN: cleave-opt %s --assign-stages="stages=2 machine=%t.json weight-limits=50000,20000" | FileCheck %s --check-prefix=FAST
// RUN: not cleave-opt %s --assign-stages="stages=2 machine=%t.json weight-limits=20000,20000" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --assign-stages="stages=2 weight-limits=1" 2>&1 | FileCheck %s --check-prefix=COUNT
// No stage has more weights than its device has memory: three weights of 16 KiB before the one operation that takes most of the time.

// FAST: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 0
// FAST: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 0
// FAST: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 0
// FAST: aten.linear({{.*}}cleave.stage_index = 1
// FITS: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 0
// FITS: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 0
// FITS: aten.mm(%{{.*}}, %{{.*}}) {cleave.stage_index = 1
// FITS: aten.linear({{.*}}cleave.stage_index = 1
// NONE: stage cut: no cut into 2 stages holds at most 20000 bytes of weights each; use --mesh pp=3 or more, or devices with memory for 32768 bytes of weights
// COUNT: found 1 weight limits, expected 2, one a stage
func.func @forward(%x: tensor<1x64xf32>, %y: tensor<4096x64xf32>) -> tensor<4096x1xf32> {
  %a = cleave.param "a" {role = "parameter"} : tensor<64x64xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<64x64xf32>
  %c = cleave.param "c" {role = "parameter"} : tensor<64x64xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mm(%x, %a) : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %1 = aten.mm(%0, %b) : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %2 = aten.mm(%1, %c) : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %3 = aten.linear(%y, %2, %none) : (tensor<4096x64xf32>, tensor<1x64xf32>, none) -> tensor<4096x1xf32>
  return %3 : tensor<4096x1xf32>
}
