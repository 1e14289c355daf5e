// RUN: cleave-opt %s --pass-pipeline="builtin.module(func.func(key-random{batch=batch},infer-types,canonicalize,cse))" | FileCheck %s
// RUN: cleave-opt %s --pass-pipeline="builtin.module(func.func(key-random,infer-types,canonicalize,cse))" | FileCheck %s --check-prefix=WHOLE

// The rows of a micro-batch have the numbers of their samples.
// CHECK-LABEL: func.func @dropout
// CHECK-SAME: %[[KEY:[a-z0-9]+]]: tensor<i64> {cleave.name = "random_key", cleave.role = "random_key"}
// CHECK-SAME: %[[SAMPLES:[a-z0-9]+]]: tensor<?xi64, #cleave.layout<dims = ["batch"]>> {cleave.name = "sample_index", cleave.role = "sample_index"}
// CHECK-DAG: %[[FIRST:.*]] = cleave.constant(0 : i64)
// CHECK-DAG: %[[SECOND:.*]] = cleave.constant(1 : i64)
// CHECK-NOT: aten.bernoulli
// CHECK: %[[ROWS:.*]] = aten.mul.Scalar(%[[SAMPLES]], %{{.*}})
// CHECK: %[[COLUMN:.*]] = aten.reshape(%[[ROWS]], %{{.*}} tensor<?x1xi64
// CHECK: %[[LIST:.*]] = cleave.list(%[[COLUMN]], %{{.*}})
// CHECK: random.bernoulli(%[[KEY]], %[[FIRST]], %[[LIST]], {{.*}} tensor<?x8xf32
// CHECK: random.bernoulli(%[[KEY]], %[[SECOND]], %[[LIST]],
// WHOLE-LABEL: func.func @dropout
// WHOLE-NOT: sample_index
// WHOLE: %[[SIZE:.*]] = cleave.size "batch"
// WHOLE: aten.arange(%[[SIZE]]
// WHOLE: random.bernoulli
func.func @dropout(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) attributes {cleave.symbols = {batch = 4 : i64}} {
  %p = cleave.constant(9.000000e-01 : f64) : f64
  %none = cleave.constant(unit) : none
  %0 = aten.bernoulli.p(%x, %p, %none) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, f64, none) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  %1 = aten.bernoulli.p(%x, %p, %none) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, f64, none) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  return %0, %1 : tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
}

// A value with the batch in two dimensions stays.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: random_key
// CHECK: aten.rand(
// CHECK-NOT: random.
func.func @kept(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>> attributes {cleave.symbols = {batch = 4 : i64}} {
  %n = cleave.size "batch"
  %none = cleave.constant(unit) : none
  %sizes = cleave.list(%n, %n) : (i64, i64) -> !cleave.list<i64>
  %0 = aten.rand(%sizes, %none, %none, %none, %none) : (!cleave.list<i64>, none, none, none, none) -> tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>>
  return %0 : tensor<?x?xf32, #cleave.layout<dims = ["batch", "batch"]>>
}
