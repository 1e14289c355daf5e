// RUN: echo '{"kinds": {"fast": {"flops_per_second": 1e11, "memory_bytes_per_second": 1e12, "operator_seconds": 0}, "slow": {"flops_per_second": 1e11, "memory_bytes_per_second": 1e12, "operator_seconds": 0, "products": {"matrix": {"float32": {"count": [1], "rows": [1], "columns": [1], "depth": [1], "flops_per_second": [33e9]}}}}}, "devices": [{"name": "a", "kind": "fast"}, {"name": "b", "kind": "slow"}], "link": {"latency_seconds": 0, "bytes_per_second": 1e12}, "links": [{"from": "b", "to": "a", "latency_seconds": 0.25, "bytes_per_second": 1e11}]}' > %t.json
// RUN: cleave-opt %s --assign-stages="stages=2 machine=%t.json" --assign-schedule="ranks=2 machine=%t.json" | FileCheck %s
// RUN: sed 's/0.25/0/' %t.json > %t-quick.json
// RUN: cleave-opt %s --assign-stages="stages=2 machine=%t-quick.json" --assign-schedule="ranks=2 machine=%t-quick.json" | FileCheck %s --check-prefix=QUICK
// A product of 4.3e9 operations takes 0.043 s on the first device, and three times that on the second: of four it gets one. What it
// receives takes 0.25 s, unless the link is quick.

// CHECK: func.func @forward(
// CHECK-SAME: #cleave.cut<seconds = [0.128{{[0-9]+}}, 0.380{{[0-9]+}}]
// CHECK-SAME: microbatch_seconds = [0.128{{[0-9]+}}, 0.130{{[0-9]+}}]
// CHECK-SAME: link_overrides = [#cleave.link_override<0 -> 1, [2.500000e-01, 1.000000e+11]>, #cleave.link_override<1 -> 0,
// CHECK-SAME: [2.500000e-01, 1.000000e+11]>]
// CHECK-COUNT-3: cleave.stage_index = 0
// CHECK: cleave.stage_index = 1
// QUICK: #cleave.cut<seconds = [0.128{{[0-9]+}}, 0.130{{[0-9]+}}]
!x = tensor<512x2048xf32>
!w = tensor<2048x2048xf32>
func.func @forward(%x: !x) -> !x {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (!x, !w, none) -> !x
  %1 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x
  %2 = aten.linear(%1, %w, %none) : (!x, !w, none) -> !x
  %3 = aten.linear(%2, %w, %none) : (!x, !w, none) -> !x
  return %3 : !x
}
