// RUN: cleave-opt %s --assign-stages='stages=2 stage-before=h.1' | FileCheck %s
// RUN: cleave-opt %s --assign-stages='stages=3 stage-before=h.1,h.3' | FileCheck %s --check-prefix=TWO
// --stage-before fixes where a stage begins, however unbalanced that is.

!x = tensor<64x256xf32>
!w = tensor<256x256xf32>

// h.10 is not inside h.1, and the second call of a shared module is.
// CHECK-LABEL: func.func @forward(
// CHECK: aten.relu({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// TWO-LABEL: func.func @forward(
// TWO: aten.relu({{.*}}) {cleave.stage_index = 0 : i64}
// TWO: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// TWO: aten.linear({{.*}}) {cleave.stage_index = 2 : i64}
// TWO: aten.linear({{.*}}) {cleave.stage_index = 2 : i64}
func.func @forward(%x: !x) -> !x {
  %w = cleave.param "w" {role = "parameter"} : !w
  %none = cleave.constant(unit) : none
  %0 = aten.relu(%x) : (!x) -> !x loc("h.10")
  %1 = aten.linear(%0, %w, %none) : (!x, !w, none) -> !x loc("h.1#1.fc")
  %2 = aten.linear(%1, %w, %none) : (!x, !w, none) -> !x loc("h.3")
  %3 = aten.linear(%2, %w, %none) : (!x, !w, none) -> !x loc("h.3")
  return %3 : !x
}
