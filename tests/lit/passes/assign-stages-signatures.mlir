// RUN: cleave-opt %s --assign-stages=stages=2 | FileCheck %s
// RUN: cleave-opt %s --assign-stages=stages=2 --assign-schedule=ranks=2 --split-stages | FileCheck %s --check-prefix=SPLIT
// RUN: sed 's/@head(%x: tensor<2560x256xf32>) -> tensor<2560x256xf32> {/@head(%x: tensor<2560x256xf32>) -> tensor<2560x256xf32> attributes {cleave.frequency = 0.01} {/' %s | cleave-opt --assign-stages=stages=2 | FileCheck %s --check-prefix=RARE
// A weight is in the same stages for all functions of a module, which are cut together.
module {

// CHECK-LABEL: func.func @whole
// CHECK-SAME: cleave.cut = #cleave.cut<seconds = [{{[^,]+}}, {{[^,]+}}], recv_bytes = [0, 262144], weight_limit_range
// CHECK: aten.linear({{.*}}stage_index = 0
// CHECK: aten.linear({{.*}}stage_index = 0
// CHECK: aten.linear({{.*}}stage_index = 1
// RARE-LABEL: func.func @whole
// RARE: aten.linear({{.*}}stage_index = 0
// RARE: aten.linear({{.*}}stage_index = 1
// RARE: aten.linear({{.*}}stage_index = 1
func.func @whole(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %a = cleave.param "a.weight" {role = "parameter"} : tensor<256x256xf32>
  %b = cleave.param "b.weight" {role = "parameter"} : tensor<256x256xf32>
  %c = cleave.param "c.weight" {role = "parameter"} : tensor<256x256xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %a, %none) : (tensor<256x256xf32>, tensor<256x256xf32>, none) -> tensor<256x256xf32> loc("a")
  %1 = aten.linear(%0, %b, %none) : (tensor<256x256xf32>, tensor<256x256xf32>, none) -> tensor<256x256xf32> loc("b")
  %2 = aten.linear(%1, %c, %none) : (tensor<256x256xf32>, tensor<256x256xf32>, none) -> tensor<256x256xf32> loc("c")
  return %2 : tensor<256x256xf32>
}

// Ten times as many rows, of c alone. Where it is rare, c is no more than the others.
// CHECK-LABEL: func.func @head
// CHECK-SAME: cleave.cut = #cleave.cut<seconds = [0.000000e+00, {{[^,]+}}], recv_bytes = [0, 0]
// CHECK: aten.linear({{.*}}stage_index = 1
// SPLIT-LABEL: func.func @head
// SPLIT: cleave.stage 0() : () -> () {
// SPLIT-NEXT: cleave.yield
// SPLIT: cleave.stage 1(
// SPLIT: cleave.param "c.weight"
func.func @head(%x: tensor<2560x256xf32>) -> tensor<2560x256xf32> {
  %c = cleave.param "c.weight" {role = "parameter"} : tensor<256x256xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %c, %none) : (tensor<2560x256xf32>, tensor<256x256xf32>, none) -> tensor<2560x256xf32> loc("c")
  return %0 : tensor<2560x256xf32>
}
}
