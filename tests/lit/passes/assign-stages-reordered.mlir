// RUN: cleave-opt %s --assign-stages=stages=2 | FileCheck %s
// RUN: cleave-opt %s --assign-stages=stages=2 --split-stages | FileCheck %s --check-prefix=SPLIT
// RUN: cleave-opt %s --assign-stages="stages=2 steps=0" | FileCheck %s --check-prefix=ORDER
// Stages need not be intervals of program order: of two chains of 3 + 1 + 1 and 3 + 2 + 2, the first operations take as long as
// all others, and in program order no cut is more even than 5 to 7.

// ORDER: proof = "linearised: program order alone"

!x = tensor<64x1024xf32>
!h = tensor<64x3072xf32>

// CHECK-LABEL: func.func @two_chains(
// CHECK-SAME: bound = [{{[0-9.eE-]+}}], proof = "exact: 16 downsets"
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 0 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}
// CHECK: aten.linear({{.*}}) {cleave.stage_index = 1 : i64}

// SPLIT-LABEL: func.func @two_chains(
// SPLIT-SAME: %[[X:.*]]: tensor<64x1024xf32>, %[[Y:.*]]: tensor<64x1024xf32>)
// SPLIT: %[[H:.*]]:2 = cleave.stage 0(%[[X]], %[[Y]])
// SPLIT-COUNT-2: aten.linear
// SPLIT: %[[R:.*]]:2 = cleave.stage 1(%[[H]]#0, %[[H]]#1)
// SPLIT-COUNT-4: aten.linear
// SPLIT: return %[[R]]#0, %[[R]]#1
func.func @two_chains(%x: !x, %y: !x) -> (!h, !h) {
  %up = cleave.param "up" {role = "parameter"} : tensor<3072x1024xf32>
  %narrow = cleave.param "narrow" {role = "parameter"} : tensor<340x3072xf32>
  %back = cleave.param "back" {role = "parameter"} : tensor<3072x340xf32>
  %wide = cleave.param "wide" {role = "parameter"} : tensor<680x3072xf32>
  %home = cleave.param "home" {role = "parameter"} : tensor<3072x680xf32>
  %none = cleave.constant(unit) : none
  %a0 = aten.linear(%x, %up, %none) : (!x, tensor<3072x1024xf32>, none) -> !h
  %a1 = aten.linear(%a0, %narrow, %none) : (!h, tensor<340x3072xf32>, none) -> tensor<64x340xf32>
  %a2 = aten.linear(%a1, %back, %none) : (tensor<64x340xf32>, tensor<3072x340xf32>, none) -> !h
  %b0 = aten.linear(%y, %up, %none) : (!x, tensor<3072x1024xf32>, none) -> !h
  %b1 = aten.linear(%b0, %wide, %none) : (!h, tensor<680x3072xf32>, none) -> tensor<64x680xf32>
  %b2 = aten.linear(%b1, %home, %none) : (tensor<64x680xf32>, tensor<3072x680xf32>, none) -> !h
  return %a2, %b2 : !h, !h
}
