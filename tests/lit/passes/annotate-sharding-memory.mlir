// RUN: cleave-opt %s --annotate-sharding="tp=2 memory=1000000" | FileCheck %s --check-prefix=ROOM
// RUN: cleave-opt %s --annotate-sharding="tp=2 memory=1" | FileCheck %s --check-prefix=NONE
// RUN: cleave-opt %s --annotate-sharding=tp=2 | FileCheck %s --check-prefix=NONE
// RUN: cleave-opt %s --annotate-sharding="tp=2 memory=1000000 shard=*=colwise" | FileCheck %s --check-prefix=ASKED
// Half of a product of 4 x 6 x 6 takes less time than to gather what the halves give.

// ROOM: cleave.param "w" {{{.*}}<style = "replicate", not_worth_sharding = true>
// NONE: cleave.param "w" {{{.*}}<style = "colwise"
// ASKED: cleave.param "w" {{{.*}}<style = "colwise"
func.func @forward(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<6x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<6x6xf32>, none) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
