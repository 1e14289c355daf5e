// RUN: cleave-opt %s --annotate-sharding | FileCheck %s
// RUN: cleave-opt %s --annotate-sharding=tp=4 | FileCheck %s --check-prefix=FOUR
// One rank splits nothing; of a weight with fewer positions than ranks all is kept whole.

// CHECK-LABEL: func.func @forward(
// CHECK-NOT: cleave.tp
// CHECK-NOT: cleave.style
// FOUR-LABEL: func.func @forward({{.*}}cleave.tp = 4
// FOUR-NEXT: cleave.param "w" {cleave.style = "replicate", role = "parameter"}
func.func @forward(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<3x3xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x3xf32>, tensor<3x3xf32>, none) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
