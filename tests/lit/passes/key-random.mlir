// RUN: cleave-opt %s --pass-pipeline="builtin.module(func.func(key-random{batch=batch},infer-types,canonicalize,cse))" | FileCheck %s
// RUN: cleave-opt %s --pass-pipeline="builtin.module(func.func(key-random,infer-types,canonicalize,cse))" | FileCheck %s --check-prefix=WHOLE

// The rows of a micro-batch have the numbers of their samples.
// CHECK-LABEL: func.func @dropout
// CHECK-SAME: %[[KEY:[a-z0-9]+]]: tensor<i64> {cleave.name = "random_key", cleave.role = "random_key"}
// CHECK-SAME: %[[SAMPLES:[a-z0-9]+]]: tensor<?xi64, #cleave.layout<dims = ["batch"]>> {cleave.name = "sample_index", cleave.role = "sample_index"}
// CHECK-DAG: %[[FIRST:.*]] = cleave.constant(0 : i64)
// CHECK-DAG: %[[SECOND:.*]] = cleave.constant(1 : i64)
// CHECK: %[[ROWS:.*]] = aten.mul.Scalar(%[[SAMPLES]], %{{.*}})
// CHECK: %[[COLUMN:.*]] = aten.reshape(%[[ROWS]], %{{.*}} tensor<?x1xi64
// CHECK: %[[LIST:.*]] = cleave.list(%[[COLUMN]], %{{.*}})
// CHECK: random.bernoulli(%[[KEY]], %[[FIRST]], %[[LIST]], {{.*}} tensor<?x8xf32
// CHECK: random.bernoulli(%[[KEY]], %[[SECOND]], %[[LIST]],
// CHECK-NOT: aten.bernoulli
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
