// RUN: cleave-opt %s --split-input-file --canonicalize --cse --rewrite-idioms --optimize-collectives | FileCheck %s
// Observes are no uses: passes do as if they were not there, and take them along with their values.

// What nobody uses goes, though it is observed.
// CHECK-LABEL: func.func @unused(
// CHECK-NOT: aten.relu
// CHECK-NOT: cleave.observe
func.func @unused(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "act" output 0 call 0 : tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

// Declared, it stays.
// CHECK-LABEL: func.func @declared(
// CHECK: %[[R:.*]] = aten.relu
// CHECK: cleave.observe %[[R]] "act" output 0 call 0 {declared}
func.func @declared(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "act" output 0 call 0 {declared} : tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

// A dropout that does nothing gives its operand, in which the edit of either reaches all that it should.
// CHECK-LABEL: func.func @folded(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: cleave.observe %[[R]] "act" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: cleave.observe %[[R]] "drop" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: aten.tanh(%[[R]])
func.func @folded(%x: tensor<2xf32>) -> tensor<2xf32> {
  %p = cleave.constant(1.000000e-01 : f64) : f64
  %false = cleave.constant(false) : i1
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "act" output 0 call 0 : tensor<2xf32>
  %1 = aten.dropout(%0, %p, %false) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  cleave.observe %1 "drop" output 0 call 0 : tensor<2xf32>
  %2 = aten.tanh(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// Here, the edit of what the dropout gives would reach the sum's other operand, too.
// CHECK-LABEL: func.func @folded_beside(
// CHECK: cleave.observe %{{.*}} "act" output 0 call 0 : tensor<2xf32>
// CHECK: cleave.observe %{{.*}} "drop" output 0 call 0 {read_only} : tensor<2xf32>
func.func @folded_beside(%x: tensor<2xf32>) -> tensor<2xf32> {
  %p = cleave.constant(1.000000e-01 : f64) : f64
  %false = cleave.constant(false) : i1
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "act" output 0 call 0 : tensor<2xf32>
  %1 = aten.dropout(%0, %p, %false) : (tensor<2xf32>, f64, i1) -> tensor<2xf32>
  cleave.observe %1 "drop" output 0 call 0 : tensor<2xf32>
  %2 = aten.mul.Tensor(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// Of two equal results, an edit of the first would reach the users of both.
// CHECK-LABEL: func.func @merged(
// CHECK: %[[C:.*]] = aten.cos
// CHECK-NEXT: cleave.observe %[[C]] "h.0.rotary" output 0 call 0 {read_only}
// CHECK-NEXT: aten.mul.Tensor
// CHECK-NEXT: cleave.observe %[[C]] "h.1.rotary" output 0 call 0 : tensor<2xf32>
// CHECK-NEXT: aten.mul.Tensor
func.func @merged(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "h.0.rotary" output 0 call 0 : tensor<2xf32>
  %1 = aten.mul.Tensor(%x, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %2 "h.1.rotary" output 0 call 0 : tensor<2xf32>
  %3 = aten.mul.Tensor(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// The exponential behind the module has become the one inside, which an edit of the module's result does not reach.
// CHECK-LABEL: func.func @merged_inside(
// CHECK: %[[R:.*]] = aten.relu
// CHECK-NEXT: aten.exp
// CHECK-NEXT: aten.mul.Tensor
// CHECK-NEXT: cleave.observe %[[R]] "inner" output 0 call 0 {read_only}
func.func @merged_inside(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = aten.mul.Tensor(%1, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  cleave.observe %0 "inner" output 0 call 0 : tensor<2xf32>
  %3 = aten.exp(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}

// -----

// A sum that becomes part of another leaves what each rank had of it.
// CHECK-LABEL: func.func @partial(
// CHECK-NEXT: %{{.*}} = cleave.constant
// CHECK-NEXT: %[[Z:.*]] = aten.relu
// CHECK-NEXT: cleave.observe %[[Z]] "mlp" output 0 call 0 {partial}
// CHECK-NEXT: aten.add.Tensor(%arg0, %[[Z]],
// CHECK-NEXT: %[[SUM:.*]] = spmd.all_reduce
// CHECK-NEXT: cleave.observe %[[SUM]] "h" output 0 call 0 : tensor<4x6xf32>
func.func @partial(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = cleave.constant(1 : i64) : i64
  %a = spmd.all_reduce(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %z = aten.relu(%y) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %b = spmd.all_reduce(%z) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  cleave.observe %b "mlp" output 0 call 0 : tensor<4x6xf32>
  %0 = aten.add.Tensor(%a, %b, %one) : (tensor<4x6xf32>, tensor<4x6xf32>, i64) -> tensor<4x6xf32>
  cleave.observe %0 "h" output 0 call 0 : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
