// RUN: echo '{"devices": [{"name": "a", "flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}, {"name": "b", "flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}], "link": {"latency_seconds": 1e-6, "bytes_per_second": 1e10}, "nodes": {"devices": 2, "latency_seconds": 50, "bytes_per_second": 1e9}}' > %t.json
// RUN: cleave-opt %s --assign-stages="stages=4 ranks=2 machine=%t.json" | FileCheck %s
// Four stages of two ranks are on one node.

// CHECK: #cleave.cut<seconds = [{{[0-9.]+}}E-6, {{[0-9.]+}}E-6, {{[0-9.]+}}E-6, {{[0-9.]+}}E-6]
func.func @forward(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = aten.mm(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = aten.mm(%0, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = aten.mm(%1, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = aten.mm(%2, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
