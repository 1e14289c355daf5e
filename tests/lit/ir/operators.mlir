// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// PyTorch's operators have their own names, overloads and namespaces, and take attributes as other operations do.

// CHECK-LABEL: func.func @operators(
func.func @operators(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %n: i64) {
  // CHECK: aten.linear(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %0 = aten.linear(%x, %w, %b) : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  // An overload's name follows the operator's.
  // CHECK: aten.add.Tensor(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>, i64) -> !cleave.tensor
  %1 = aten.add.Tensor(%x, %x, %n) : (tensor<4x8xf32>, tensor<4x8xf32>, i64) -> !cleave.tensor
  // CHECK: aten._softmax
  %none = cleave.constant(false) : i1
  %2 = aten._softmax(%x, %n, %none) : (tensor<4x8xf32>, i64, i1) -> tensor<4x8xf32>
  // Several results.
  // CHECK: %{{.*}}:2 = aten.max.dim(%{{.*}}) : (tensor<4x8xf32>, i64, i1) -> (tensor<4xf32>, tensor<4xi64>)
  %3:2 = aten.max.dim(%x, %n, %none) : (tensor<4x8xf32>, i64, i1) -> (tensor<4xf32>, tensor<4xi64>)
  // CHECK: aten.relu(%{{.*}}) {cleave.stage_index = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = aten.relu(%x) {cleave.stage_index = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: prim.NumToTensor.Scalar(%{{.*}}) : (i64) -> tensor<i64>
  %5 = prim.NumToTensor.Scalar(%n) : (i64) -> tensor<i64>
  // Any number of operands, and no result.
  // CHECK: prim.Print(%{{.*}}, %{{.*}}) : (i64, tensor<4x8xf32>) -> ()
  prim.Print(%n, %x) : (i64, tensor<4x8xf32>) -> ()
  // CHECK: quantized.linear_dynamic(
  %packed = cleave.constant("weight") : !cleave.any
  %6 = quantized.linear_dynamic(%x, %packed, %none) : (tensor<4x8xf32>, !cleave.any, i1) -> tensor<4x16xf32>
  // CHECK: mkldnn._is_mkldnn_acl_supported() : () -> i1
  %7 = mkldnn._is_mkldnn_acl_supported() : () -> i1
  return
}
