// RUN: cleave-opt %s --split-input-file --lower-precision --canonicalize --cse | FileCheck %s
// What is no product of float32, or sums nothing, stays; boundaries keep their dtypes.

// CHECK-NOT: cleave.precision
// CHECK-LABEL: func.func @others(
// CHECK-NOT: bf16
// CHECK: return
func.func @others(%x: tensor<4x8xf32>, %d: tensor<8x8xf64>, %h: tensor<8x8xf16>) -> (tensor<4x8xf32>, tensor<8x8xf64>, tensor<8x8xf16>) {
  %w = cleave.param "scale" {role = "parameter"} : tensor<8xf32>
  %0 = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = aten.mm(%d, %d) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %2 = aten.mm(%h, %h) : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<8x8xf64>, tensor<8x8xf16>
}

// -----

// Angles of positions: bfloat16 does not tell 257 from 256.
// CHECK-LABEL: func.func @outer(
// CHECK-NOT: bf16
// CHECK: return
func.func @outer(%positions: tensor<1x1x16xf32>) -> tensor<1x4x16xf32> {
  %f = cleave.param "inv_freq" {role = "buffer"} : tensor<1x4x1xf32>
  %0 = aten.matmul(%f, %positions) : (tensor<1x4x1xf32>, tensor<1x1x16xf32>) -> tensor<1x4x16xf32>
  return %0 : tensor<1x4x16xf32>
}

// -----

// CHECK-LABEL: func.func @boundary(
// CHECK: cleave.boundary {{.*}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
func.func @boundary(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = cleave.boundary %0 "fc" output 0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten.mm(%1, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// A mask that is added in the product: the least float32 would be an infinity in bfloat16.
// CHECK-LABEL: func.func @masked(
// CHECK-NOT: bf16
// CHECK: return
func.func @masked(%mask: tensor<2x1x5xf32>, %q: tensor<2x5x8xf32>, %k: tensor<2x8x5xf32>) -> tensor<2x5x5xf32> {
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.baddbmm(%mask, %q, %k, %one, %one) : (tensor<2x1x5xf32>, tensor<2x5x8xf32>, tensor<2x8x5xf32>, i64, i64) -> tensor<2x5x5xf32>
  return %0 : tensor<2x5x5xf32>
}
