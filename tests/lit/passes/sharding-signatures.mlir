// RUN: cleave-opt %s --annotate-sharding=tp=2 --propagate-sharding | FileCheck %s
// RUN: cleave-opt %s --annotate-sharding=tp=2 --propagate-sharding --insert-reshards --partition-spmd --canonicalize | FileCheck %s --check-prefix=SPMD
// A weight has one sharding in all functions of a module. Alone, the second would split its only weight by columns.

// CHECK-LABEL: func.func @mlp
// CHECK-SAME: cleave.sharding_decision
// CHECK: cleave.param "up.weight" {{.*}}<style = "colwise", seed = <dim = 0>>
// CHECK: cleave.param "down.weight" {{.*}}<style = "rowwise">
// SPMD-LABEL: func.func @mlp
// SPMD: cleave.param "up.weight" {{.*}}shard = #cleave.sharding<0, [0, 16], [16, 16]>} : tensor<16x8xf32>
// SPMD: cleave.param "down.weight" {{.*}}shard = #cleave.sharding<1, [0, 16], [16, 16]>} : tensor<8x16xf32>
func.func @mlp(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
    -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>> attributes {cleave.symbols = {batch = 64 : i64}} {
  %up = cleave.param "up.weight" {role = "parameter"} : tensor<32x8xf32>
  %down = cleave.param "down.weight" {role = "parameter"} : tensor<8x32xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>, tensor<32x8xf32>, none) -> tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>
  %1 = aten.relu(%0) : (tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>) -> tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>
  %2 = aten.linear(%1, %down, %none) : (tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>, tensor<8x32xf32>, none) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  return %2 : tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
}

// CHECK-LABEL: func.func @down
// CHECK-SAME: cleave.symbols = {batch = 2 : i64}
// CHECK-NOT: cleave.sharding_decision
// CHECK-SAME: cleave.tp = 2
// CHECK: cleave.param "down.weight" {{.*}}<style = "rowwise">
// CHECK: aten.linear({{.*}}tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>, {{.*}} -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
// SPMD-LABEL: func.func @down
// SPMD: cleave.param "down.weight" {{.*}}shard = #cleave.sharding<1, [0, 16], [16, 16]>} : tensor<8x16xf32>
// SPMD: spmd.all_reduce
func.func @down(%x: tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>)
    -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>> attributes {cleave.symbols = {batch = 2 : i64}} {
  %down = cleave.param "down.weight" {role = "parameter"} : tensor<8x32xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %down, %none) : (tensor<?x32xf32, #cleave.layout<dims = ["batch", "32"]>>, tensor<8x32xf32>, none) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
  return %0 : tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
}
