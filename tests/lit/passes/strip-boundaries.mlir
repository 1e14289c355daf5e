// RUN: cleave-opt %s --strip-boundaries | FileCheck %s --check-prefix=ALL
// RUN: cleave-opt %s --strip-boundaries=keep=transformer.h.*,ln_? | FileCheck %s --check-prefix=SOME
// RUN: cleave-opt %s --strip-boundaries=keep=* | FileCheck %s --check-prefix=NONE
// Boundaries that no pattern names are replaced by their operand.

// ALL-LABEL: func.func @forward(
// ALL-NOT: cleave.boundary
// ALL: return
// SOME-LABEL: func.func @forward(
// SOME-SAME: %[[X:.*]]: tensor<2xf32>,
// SOME: %[[H:.*]] = cleave.boundary %[[X]] "transformer.h.0" output 0
// SOME-NOT: "head"
// SOME: cleave.boundary %[[H]] "ln_f"
// In regions too.
// SOME: cleave.boundary {{.*}} "transformer.h.1#1"
// SOME-NOT: "ln_10"

// Does nothing when all are kept.
// NONE-LABEL: func.func @forward(
// NONE-COUNT-5: cleave.boundary
func.func @forward(%x: tensor<2xf32>, %c: i1) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = cleave.boundary %x "transformer.h.0" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %1 = cleave.boundary %0 "head" output 0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = cleave.boundary %1 "ln_f" output 1 : (tensor<2xf32>) -> tensor<2xf32>
  %3 = cleave.if %c : tensor<2xf32> {
    %4 = cleave.boundary %2 "transformer.h.1#1" output 0 : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %4 : tensor<2xf32>
  } else {
    %4 = cleave.boundary %2 "ln_10" output 0 : (tensor<2xf32>) -> tensor<2xf32>
    cleave.yield %4 : tensor<2xf32>
  }
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}
