// RUN: cleave-opt %s --differentiate --infer-types --canonicalize --cse --recompute -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: cleave-opt %s --differentiate --infer-types --canonicalize --cse --recompute="modules=h.1" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=ONE
// RUN: not cleave-opt %s --differentiate --recompute="modules=g.*" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --recompute 2>&1 | FileCheck %s --check-prefix=FORWARD

// NONE: modules to recompute: found "g.*", which matches no module, expected full, selective, minimum-cut, or the path of a module, such as h.0.a, in which * and ? are wildcards
// FORWARD: found no result that is a loss

// What the first block gives to the second is kept; what it has inside is computed again, in front of its own backward pass.
// CHECK-LABEL: func.func @blocks(
// CHECK: %[[A:.*]] = aten.tanh(%{{.*}}) {{.*}} loc({{.*}}"h.0.a"{{.*}})
// CHECK: %[[B:.*]] = aten.sin(%[[A]]) {{.*}} loc({{.*}}"h.0.b"{{.*}})
// CHECK: %[[C:.*]] = aten.exp(%[[B]]) {{.*}} loc({{.*}}"h.1"{{.*}})
// CHECK: %[[D:.*]] = aten.cos(%[[C]]) {{.*}} loc({{.*}}"h.1"{{.*}})
// CHECK: aten.sum(%[[D]]
// CHECK: %[[C2:.*]] = aten.exp(%[[B]]) {{.*}} loc({{.*}}"h.1"{{.*}})
// CHECK: aten.sin(%[[C2]]) {{.*}} loc({{.*}}"h.1"{{.*}})
// CHECK: %[[A2:.*]] = aten.tanh(%{{.*}}) {{.*}} loc({{.*}}"h.0.a"{{.*}})
// CHECK: aten.cos(%[[A2]]) {{.*}} loc({{.*}}"h.0.b"{{.*}})
// CHECK: aten.tanh_backward(%{{.*}}, %[[A2]]) {{.*}} loc({{.*}}"h.0.a"{{.*}})

// ONE: %[[A:.*]] = aten.tanh(%{{.*}}) {{.*}} loc({{.*}}"h.0.a"{{.*}})
// ONE-COUNT-2: aten.exp(
// ONE-NOT: aten.tanh(
// ONE: aten.tanh_backward(%{{.*}}, %[[A]])
func.func @blocks(%x: tensor<8xf32>) -> (tensor<f32> {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<8xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.mul.Tensor(%x, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("in")
  %1 = aten.tanh(%0) : (tensor<8xf32>) -> tensor<8xf32> loc("h.0.a")
  %2 = aten.sin(%1) : (tensor<8xf32>) -> tensor<8xf32> loc("h.0.b")
  %3 = aten.exp(%2) : (tensor<8xf32>) -> tensor<8xf32> loc("h.1")
  %4 = aten.cos(%3) : (tensor<8xf32>) -> tensor<8xf32> loc("h.1")
  %5 = aten.sum(%4, %none) : (tensor<8xf32>, none) -> tensor<f32> loc("out")
  return %5 : tensor<f32>
}
