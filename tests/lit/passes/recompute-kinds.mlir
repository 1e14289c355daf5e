// RUN: cleave-opt %s --differentiate --infer-types --canonicalize --cse --recompute="kind=minimum-cut" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=CUT
// RUN: cleave-opt %s --differentiate --infer-types --canonicalize --cse --recompute="kind=selective" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=SELECTIVE
// RUN: not cleave-opt %s --recompute="kind=some" 2>&1 | FileCheck %s --check-prefix=KIND

// KIND: Cannot find option named 'some'

// The products are saved, and one of the two values between them: the later one, so that less is computed again.
// CUT-LABEL: func.func @perceptron(
// CUT: %[[E:.*]] = aten.exp(%{{.*}}) {{.*}} loc({{.*}}"act"{{.*}})
// CUT: %[[S:.*]] = aten.sin(%[[E]]) {{.*}} loc({{.*}}"act"{{.*}})
// CUT: aten.linear(%[[S]], {{.*}} loc({{.*}}"down"{{.*}})
// CUT: %[[AGAIN:.*]] = aten.sin(%[[E]]) {{.*}} loc({{.*}}"act"{{.*}})
// CUT: aten.mm(%{{.*}}, %[[AGAIN]]) {{.*}} loc({{.*}}"down"{{.*}})
// CUT-NOT: aten.exp
// CUT: return

// SELECTIVE-LABEL: func.func @perceptron(
// SELECTIVE-COUNT-1: aten.exp(
// SELECTIVE-NOT: aten.exp(
// SELECTIVE-LABEL: func.func @attention(
func.func @perceptron(%x: tensor<8x4xf32>) -> (tensor<f32> {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<16x4xf32>
  %v = cleave.param "v" {role = "parameter"} : tensor<4x16xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<8x4xf32>, tensor<16x4xf32>, none) -> tensor<8x16xf32> loc("up")
  %1 = aten.exp(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("act")
  %2 = aten.sin(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("act")
  %3 = aten.linear(%2, %v, %none) : (tensor<8x16xf32>, tensor<4x16xf32>, none) -> tensor<8x4xf32> loc("down")
  %4 = aten.sum(%3, %none) : (tensor<8x4xf32>, none) -> tensor<f32> loc("out")
  return %4 : tensor<f32>
}

// Scores and probabilities are computed again; queries, keys and values are saved.
// SELECTIVE: %[[SCORES:.*]] = aten.bmm(%[[Q:.*]], %[[K:.*]]) {{.*}} loc({{.*}}"h.0.attn"{{.*}})
// SELECTIVE: aten._softmax(%[[SCORES]], {{.*}} loc({{.*}}"h.0.attn"{{.*}})
// SELECTIVE: aten.bmm({{.*}} loc({{.*}}"h.0.attn"{{.*}})
// SELECTIVE: aten.sum(
// SELECTIVE: %[[AGAIN:.*]] = aten.bmm(%[[Q]], %[[K]]) {{.*}} loc({{.*}}"h.0.attn"{{.*}})
// SELECTIVE: %[[P:.*]] = aten._softmax(%[[AGAIN]], {{.*}} loc({{.*}}"h.0.attn"{{.*}})
// SELECTIVE: aten._softmax_backward_data(%{{.*}}, %[[P]],
func.func @attention(%x: tensor<2x6x4xf32>) -> (tensor<f32> {cleave.name = "loss"}) {
  %wq = cleave.param "wq" {role = "parameter"} : tensor<4x4xf32>
  %wk = cleave.param "wk" {role = "parameter"} : tensor<4x4xf32>
  %none = cleave.constant(unit) : none
  %false = cleave.constant(false) : i1
  %last = cleave.constant(-1 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %q = aten.linear(%x, %wq, %none) : (tensor<2x6x4xf32>, tensor<4x4xf32>, none) -> tensor<2x6x4xf32> loc("h.0.q")
  %k = aten.linear(%x, %wk, %none) : (tensor<2x6x4xf32>, tensor<4x4xf32>, none) -> tensor<2x6x4xf32> loc("h.0.k")
  %t = aten.transpose.int(%k, %one, %two) : (tensor<2x6x4xf32>, i64, i64) -> tensor<2x4x6xf32> loc("h.0.attn")
  %s = aten.bmm(%q, %t) : (tensor<2x6x4xf32>, tensor<2x4x6xf32>) -> tensor<2x6x6xf32> loc("h.0.attn")
  %p = aten._softmax(%s, %last, %false) : (tensor<2x6x6xf32>, i64, i1) -> tensor<2x6x6xf32> loc("h.0.attn")
  %o = aten.bmm(%p, %k) : (tensor<2x6x6xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32> loc("h.0.attn")
  %l = aten.sum(%o, %none) : (tensor<2x6x4xf32>, none) -> tensor<f32> loc("out")
  return %l : tensor<f32>
}

// A write of a state has no result, and is not repeated.
// CUT-LABEL: func.func @writes(
// CUT: %[[H:.*]] = aten.linear(
// CUT: cleave.write_state "s" %[[H]]
// CUT: %[[E:.*]] = aten.exp(%[[H]])
// CUT: aten.sin(%[[E]])
// CUT-NOT: cleave.write_state
// CUT: aten.cos(%[[E]])
// CUT: return
func.func @writes(%x: tensor<8x4xf32>) -> (tensor<f32> {cleave.name = "loss"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<16x4xf32>
  %init = cleave.param "s" {role = "buffer"} : tensor<8x16xf32>
  %none = cleave.constant(unit) : none
  %s = cleave.read_state "s" from %init : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %0 = aten.linear(%x, %w, %none) : (tensor<8x4xf32>, tensor<16x4xf32>, none) -> tensor<8x16xf32> loc("up")
  cleave.write_state "s" %0 : tensor<8x16xf32> loc("up")
  %1 = aten.exp(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("act")
  %2 = aten.sin(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("act")
  %3 = aten.sum(%2, %none) : (tensor<8x16xf32>, none) -> tensor<f32> loc("out")
  return %3 : tensor<f32>
}

// What is returned is there anyway, and is not computed again.
// CUT-LABEL: func.func @returns(
// CUT: aten.linear(
// CUT: %[[E:.*]] = aten.exp(
// CUT-NOT: aten.exp(
// CUT: return %{{.*}}, %[[E]],
func.func @returns(%x: tensor<8x4xf32>) -> (tensor<f32> {cleave.name = "loss"}, tensor<8x16xf32>) {
  %w = cleave.param "w" {role = "parameter"} : tensor<16x4xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<8x4xf32>, tensor<16x4xf32>, none) -> tensor<8x16xf32> loc("up")
  %1 = aten.exp(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("act")
  %2 = aten.sum(%1, %none) : (tensor<8x16xf32>, none) -> tensor<f32> loc("out")
  return %2, %1 : tensor<f32>, tensor<8x16xf32>
}
