// RUN: cleave-opt %s --split-input-file --infer-types --propagate-sharding --insert-reshards | FileCheck %s
// What an operation needs in other parts than there are is given to it so.

// Columns and rows need nothing; what is returned is whole already.
// CHECK-LABEL: func.func @mlp
// CHECK-NOT: cleave.reshard
func.func @mlp(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x9xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%0, %down, %none) : (!cleave.tensor, tensor<6x9xf32>, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// A norm needs its row whole, and so do a branch, a state and the caller: all of them the same one, made once where
// the value is.
// CHECK-LABEL: func.func @whole
// CHECK: %[[H:.*]] = aten.linear
// CHECK-NEXT: %[[ALL:.*]] = cleave.reshard %[[H]] : (
// CHECK-NOT: cleave.reshard
// CHECK: aten.softmax.int(%[[ALL]],
// CHECK: cleave.if
// CHECK: aten.neg(%[[ALL]])
// CHECK: cleave.write_state "s" %[[ALL]]
// CHECK: return {{.*}}%[[ALL]]
func.func @whole(%x: tensor<4x6xf32>, %c: i1) -> (!cleave.tensor, tensor<4x8xf32>, tensor<4x8xf32>) attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %first = cleave.param "first" {role = "buffer"} : tensor<4x8xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %s = cleave.read_state "s" from %first : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> tensor<4x8xf32>
  %1 = aten.softmax.int(%0, %one, %none) : (tensor<4x8xf32>, i64, none) -> !cleave.tensor
  %2 = cleave.if %c : tensor<4x8xf32> {
    %3 = aten.neg(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    cleave.yield %3 : tensor<4x8xf32>
  } else {
    cleave.yield %s : tensor<4x8xf32>
  }
  cleave.write_state "s" %0 : tensor<4x8xf32>
  return %1, %2, %0 : !cleave.tensor, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Who captures a module's output puts it together from what ranks have, which others take as it was.
// CHECK-LABEL: func.func @captured
// CHECK: %[[H:.*]] = aten.linear
// CHECK-NEXT: cleave.observe %[[H]] "up" output 0 call 0 {declared}
// CHECK-NEXT: aten.linear(%[[H]],
func.func @captured(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x9xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> tensor<4x9xf32>
  %b = cleave.boundary %0 "up" output 0 : (tensor<4x9xf32>) -> tensor<4x9xf32>
  %1 = aten.linear(%b, %down, %none) : (tensor<4x9xf32>, tensor<6x9xf32>, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// What a list holds is whole for who takes one that is not known by number, and split for who does.
// CHECK-LABEL: func.func @items
// CHECK: %[[H:.*]] = aten.linear
// CHECK: %[[ALL:.*]] = cleave.reshard %[[H]] : (
// CHECK: %[[LIST:.*]] = cleave.list(%[[ALL]], %{{.*}})
// CHECK: aten.__getitem__.t(%[[LIST]],
// CHECK: %[[PARTS:.*]] = cleave.list(%[[H]], %[[H]])
// CHECK: aten.cat(%[[PARTS]],
func.func @items(%x: tensor<4x6xf32>, %i: i64) -> (!cleave.tensor, !cleave.tensor) attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> !cleave.tensor
  %1 = cleave.list(%0, %x) : (!cleave.tensor, tensor<4x6xf32>) -> !cleave.list<!cleave.tensor>
  %2 = aten.__getitem__.t(%1, %i) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %3 = cleave.list(%0, %0) : (!cleave.tensor, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %4 = aten.cat(%3, %one) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  return %2, %4 : !cleave.tensor, !cleave.tensor
}

// -----

// A split tensor joined with a whole one: each rank joins what it has, and has all of the whole one.
// CHECK-LABEL: func.func @joined
// CHECK: aten.linear({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 4]>]}
// CHECK-NOT: cleave.reshard
// CHECK: aten.cat({{.*}}) {cleave.shardings = [#cleave.sharding<1, [0, 4, 8, 6], [4, 10]>]}
// CHECK: cleave.reshard
func.func @joined(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<8x6xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<8x6xf32>, none) -> !cleave.tensor
  %1 = aten.softmax.int(%x, %one, %none) : (tensor<4x6xf32>, i64, none) -> !cleave.tensor
  %2 = cleave.list(%0, %1) : (!cleave.tensor, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %3 = aten.cat(%2, %one) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  return %3 : !cleave.tensor
}

// -----

// A value is observed before anybody gathers it, so that an edit reaches what is gathered.
// CHECK-LABEL: func.func @observed
// CHECK: %[[H:.*]] = aten.linear
// CHECK-NEXT: cleave.observe %[[H]] "up" output 0 call 0
// CHECK-NEXT: %[[ALL:.*]] = cleave.reshard %[[H]]
// CHECK-NEXT: return %[[ALL]]
func.func @observed(%x: tensor<4x6xf32>) -> tensor<4x9xf32> attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> tensor<4x9xf32>
  cleave.observe %0 "up" output 0 call 0 : tensor<4x9xf32>
  return %0 : tensor<4x9xf32>
}

// -----

// What is declared is read only where others take the value that it is of.
// CHECK-LABEL: func.func @beside
// CHECK: cleave.observe %{{.*}} "up" output 0 call 0 {declared, read_only}
func.func @beside(%x: tensor<4x6xf32>) -> (tensor<4x9xf32>, tensor<4x9xf32>) attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> tensor<4x9xf32>
  %b = cleave.boundary %0 "up" output 0 : (tensor<4x9xf32>) -> tensor<4x9xf32>
  return %b, %0 : tensor<4x9xf32>, tensor<4x9xf32>
}
