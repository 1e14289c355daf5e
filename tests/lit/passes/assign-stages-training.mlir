// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(differentiate{for-optimizer=true},canonicalize,cse,infer-types),assign-stages{stages=2 machine=cpu:2},func.func(split-stages))' | FileCheck %s
// Backward operations go to the stage of their forward operations: gradients travel from stage 1 to stage 0, each stage takes what its
// forward pass has left, and products that give gradients of weights alone are programs of their own.

// CHECK-LABEL: func.func @step
// CHECK: %[[F0:.*]] = cleave.stage 0(%arg0)
// CHECK: aten.linear
// CHECK-NEXT: aten.tanh
// CHECK: %[[F1:.*]]:3 = cleave.stage 1(%[[F0]])
// CHECK: aten.linear
// CHECK: aten.sum
// CHECK: %[[B1:.*]]:2 = cleave.stage 1(%[[F1]]#0, %[[F1]]#1) {phase = #cleave.phase<backward_input>}
// CHECK: aten.tanh_backward
// CHECK: aten.mm
// CHECK-NOT: aten.mm
// CHECK: %[[B0:.*]] = cleave.stage 0(%[[B1]]#{{[01]}}, %[[F0]]) {phase = #cleave.phase<backward_input>}
// CHECK: aten.tanh_backward
// CHECK-NOT: aten.mm
// CHECK: %[[W0:.*]] = cleave.stage 0(%[[B0]], %arg0) {phase = #cleave.phase<backward_weight>}
// CHECK: aten.mm
// CHECK: %[[W1:.*]] = cleave.stage 1(%[[B1]]#{{[01]}}, %[[F1]]#2) {phase = #cleave.phase<backward_weight>}
// CHECK: aten.mm
// CHECK: return %[[F1]]#0, %[[W0]], %[[W1]]
func.func @step(%x: tensor<64x64xf32> {cleave.name = "x"}) -> (!cleave.tensor {cleave.name = "loss"})
    attributes {cleave.input_tree = ["tuple", 0], cleave.output_tree = ["tuple", 0]} {
  %a = cleave.param "a" {role = "parameter"} : tensor<64x64xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<64x64xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %a, %none) : (tensor<64x64xf32>, tensor<64x64xf32>, none) -> !cleave.tensor loc("a")
  %1 = aten.tanh(%0) : (!cleave.tensor) -> !cleave.tensor loc("tanh")
  %2 = aten.linear(%1, %b, %none) : (!cleave.tensor, tensor<64x64xf32>, none) -> !cleave.tensor loc("b")
  %3 = aten.tanh(%2) : (!cleave.tensor) -> !cleave.tensor loc("last")
  %4 = aten.sum(%3, %none) : (!cleave.tensor, none) -> !cleave.tensor loc("loss")
  return %4 : !cleave.tensor
}
