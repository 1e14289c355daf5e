// RUN: cleave-opt %s --assign-stages=stages=2 --split-stages --split-input-file | FileCheck %s
// A state and its update are in one stage, with all that lies between; others may be elsewhere, and take the value.

// CHECK-LABEL: func.func @one_state
// CHECK: cleave.stage 0
// CHECK: %[[H:.*]] = cleave.read_state "h"
// CHECK: %[[NEXT:.*]] = aten.add.Tensor(%[[H]],
// CHECK: cleave.write_state "h" %[[NEXT]]
// CHECK: cleave.stage 1
func.func @one_state(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %h0 = cleave.param "h" {role = "buffer"} : tensor<64x64xf32>
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.mm(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = aten.mm(%0, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = cleave.read_state "h" from %h0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = aten.add.Tensor(%h, %1, %one) : (tensor<64x64xf32>, tensor<64x64xf32>, i64) -> tensor<64x64xf32>
  cleave.write_state "h" %2 : tensor<64x64xf32>
  %3 = aten.mm(%2, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = aten.mm(%3, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}
