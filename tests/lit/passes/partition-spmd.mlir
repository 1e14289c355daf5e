// RUN: cleave-opt %s --split-input-file --infer-types --propagate-sharding --insert-reshards --partition-spmd --canonicalize | FileCheck %s
// What each rank does.

// Weights are cut, and what is added to a sum is added once.
// CHECK-LABEL: func.func @mlp
// CHECK-DAG: %[[UP:.*]] = cleave.param "up" {{.*}}shard = #cleave.sharding<0, [0, 4], [4, 5]>} : tensor<4x6xf32>
// CHECK-DAG: %[[DOWN:.*]] = cleave.param "down" {{.*}}shard = #cleave.sharding<1, [0, 4], [4, 5]>} : tensor<6x4xf32>
// CHECK-DAG: %[[BIAS:.*]] = cleave.param "bias" {role = "parameter"} : tensor<6xf32>
// CHECK-DAG: %[[ONCE:.*]] = cleave.first_rank %[[BIAS]]
// CHECK-DAG: %[[H:.*]] = aten.linear(%{{.*}}, %[[UP]],
// CHECK: %[[PART:.*]] = aten.linear(%[[H]], %[[DOWN]], %[[ONCE]])
// CHECK: %[[SUM:.*]] = spmd.all_reduce(%[[PART]])
// CHECK: return %[[SUM]]
func.func @mlp(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x9xf32>
  %bias = cleave.param "bias" {role = "parameter"} : tensor<6xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> !cleave.tensor
  %1 = aten.linear(%0, %down, %bias) : (!cleave.tensor, tensor<6x9xf32>, tensor<6xf32>) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// An operand that the call must have is taken no time by the other ranks.
// CHECK-LABEL: func.func @added
// CHECK: %[[BETA:.*]] = cleave.per_rank([3, 0]) : i64
// CHECK: aten.addmm(%{{.*}}, %{{.*}}, %{{.*}}, %[[BETA]], %{{.*}})
// CHECK-NEXT: spmd.all_reduce
func.func @added(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x5xf32>
  %bias = cleave.param "bias" {role = "parameter"} : tensor<5xf32>
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %0 = aten.addmm(%bias, %x, %w, %three, %one) : (tensor<5xf32>, tensor<4x6xf32>, tensor<6x5xf32>, i64, i64) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// Numbers that are sizes of split dimensions are each rank's own: in constant lists, in lists of constants and named
// sizes, for views, and for what is expanded. -1 stays.
// CHECK-LABEL: func.func @sizes
// CHECK: %[[REST:.*]] = cleave.constant([2, 5, -1])
// CHECK: %[[HEADS:.*]] = cleave.per_rank({{\[\[}}2, 5, 1, 2], [2, 5, 2, 2]]) : !cleave.list<i64>
// CHECK: aten.view(%{{.*}}, %[[HEADS]])
// CHECK: aten.reshape(%{{.*}}, %[[REST]])
// CHECK: %[[BATCH:.*]] = cleave.size "b"
// CHECK: %[[OWN:.*]] = cleave.per_rank([2, 4]) : i64
// CHECK: %[[LIST:.*]] = cleave.list(%[[BATCH]], %{{.*}}, %[[OWN]])
// CHECK: aten.view(%{{.*}}, %[[LIST]])
// CHECK: %[[WIDE:.*]] = cleave.per_rank({{\[\[}}3, 2], [3, 4]]) : !cleave.list<i64>
// CHECK: aten.expand(%{{.*}}, %[[WIDE]],
func.func @sizes(%x: tensor<2x5x6xf32>, %y: tensor<?x5x6xf32, #cleave.layout<dims = ["b", "5", "6"]>>)
    -> (!cleave.tensor, !cleave.tensor, !cleave.tensor) attributes {cleave.tp = 2 : i64, cleave.symbols = {b = 3}} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x6xf32>
  %out = cleave.param "out" {role = "parameter"} : tensor<6x6xf32>
  %s = cleave.param "s" {role = "parameter"} : tensor<6xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %heads = cleave.constant([2, 5, 3, 2]) : !cleave.list<i64>
  %rows = cleave.constant([2, 5, -1]) : !cleave.list<i64>
  %wide = cleave.constant([3, 6]) : !cleave.list<i64>
  %five = cleave.constant(5 : i64) : i64
  %six = cleave.constant(6 : i64) : i64
  %0 = aten.linear(%x, %w, %s) : (tensor<2x5x6xf32>, tensor<6x6xf32>, tensor<6xf32>) -> !cleave.tensor
  %1 = aten.view(%0, %heads) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %2 = aten.reshape(%1, %rows) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %3 = aten.linear(%2, %out, %none) : (!cleave.tensor, tensor<6x6xf32>, none) -> !cleave.tensor
  %4 = aten.linear(%y, %w, %none) : (tensor<?x5x6xf32, #cleave.layout<dims = ["b", "5", "6"]>>, tensor<6x6xf32>, none) -> !cleave.tensor
  %b = cleave.size "b"
  %list = cleave.list(%b, %five, %six) : (i64, i64, i64) -> !cleave.list<i64>
  %5 = aten.view(%4, %list) : (!cleave.tensor, !cleave.list<i64>) -> !cleave.tensor
  %6 = aten.linear(%5, %out, %none) : (!cleave.tensor, tensor<6x6xf32>, none) -> !cleave.tensor
  %7 = aten.expand(%s, %wide, %no) : (tensor<6xf32>, !cleave.list<i64>, i1) -> !cleave.tensor
  %8 = aten.linear(%7, %out, %none) : (!cleave.tensor, tensor<6x6xf32>, none) -> !cleave.tensor
  return %3, %6, %8 : !cleave.tensor, !cleave.tensor, !cleave.tensor
}

// -----

// Rows that a rank does not have are zeros of it; numbers of no row fail at the table's ends.
// CHECK-LABEL: func.func @vocabulary
// CHECK-SAME: (%[[IDS:.*]]: tensor<2x3xi64>)
// CHECK: %[[BEGIN:.*]] = cleave.per_rank([0, 5]) : i64
// CHECK: %[[LOCAL:.*]] = aten.sub.Scalar(%[[IDS]], %[[BEGIN]],
// CHECK-DAG: %[[FIRST:.*]] = cleave.per_rank([-9223372036854775808, 0]) : i64
// CHECK-DAG: %[[LAST:.*]] = cleave.per_rank([4, 9223372036854775807]) : i64
// CHECK: %[[OWN:.*]] = aten.clamp(%[[LOCAL]], %[[FIRST]], %[[LAST]])
// CHECK: %[[OTHER:.*]] = aten.ne.Tensor(%[[LOCAL]], %[[OWN]])
// CHECK: %[[ROWS:.*]] = aten.embedding(%{{.*}}, %[[OWN]],
// CHECK: %[[MASK:.*]] = aten.unsqueeze(%[[OTHER]],
// CHECK: %[[MASKED:.*]] = aten.masked_fill.Scalar(%[[ROWS]], %[[MASK]],
// CHECK: spmd.all_reduce(%[[MASKED]])
func.func @vocabulary(%ids: tensor<2x3xi64>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "words" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<11x4xf32>
  %no = cleave.constant(false) : i1
  %pad = cleave.constant(-1 : i64) : i64
  %0 = aten.embedding(%w, %ids, %pad, %no, %no) : (tensor<11x4xf32>, tensor<2x3xi64>, i64, i1, i1) -> !cleave.tensor
  return %0 : !cleave.tensor
}

// -----

// Groups are counted by rank: of three, one and two.
// CHECK-LABEL: func.func @groups
// CHECK: %[[GROUPS:.*]] = cleave.per_rank([1, 2]) : i64
// CHECK-NEXT: aten.conv1d({{.*}}, %[[GROUPS]])
// CHECK: %[[NORMED:.*]] = cleave.per_rank([1, 2]) : i64
// CHECK-NEXT: aten.group_norm(%{{.*}}, %[[NORMED]],
func.func @groups(%x: tensor<2x6x5xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<6x2x3xf32>
  %none = cleave.constant(unit) : none
  %no = cleave.constant(false) : i1
  %tenth = cleave.constant(0.1 : f64) : f64
  %one = cleave.constant([1]) : !cleave.list<i64>
  %three = cleave.constant(3 : i64) : i64
  %0 = aten.conv1d(%x, %w, %none, %one, %one, %one, %three)
      : (tensor<2x6x5xf32>, tensor<6x2x3xf32>, none, !cleave.list<i64>, !cleave.list<i64>, !cleave.list<i64>, i64) -> !cleave.tensor
  %1 = aten.group_norm(%0, %three, %none, %none, %tenth, %no) : (!cleave.tensor, i64, none, none, f64, i1) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// Cuts, joins and reorders take what they need of what the rank has: a range is a view, several are copied.
// CHECK-LABEL: func.func @positions
// CHECK: %[[H:.*]] = aten.linear
// CHECK: %[[HALF:.*]] = aten.narrow(%[[H]],
// CHECK: %[[LIST:.*]] = cleave.list(%[[HALF]], %{{.*}})
// CHECK: %[[CAT:.*]] = aten.cat(%[[LIST]],
// CHECK: %[[STEP:.*]] = spmd.shard(%[[CAT]],
// CHECK: spmd.all_gather(%[[STEP]],
func.func @positions(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<12x6xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %nine = cleave.constant(9 : i64) : i64
  %end = cleave.constant(9223372036854775807 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<12x6xf32>, none) -> !cleave.tensor
  %1 = aten.slice.Tensor(%0, %one, %three, %nine, %one) : (!cleave.tensor, i64, i64, i64, i64) -> !cleave.tensor
  %2 = cleave.list(%1, %0) : (!cleave.tensor, !cleave.tensor) -> !cleave.list<!cleave.tensor>
  %3 = aten.cat(%2, %one) : (!cleave.list<!cleave.tensor>, i64) -> !cleave.tensor
  %4 = aten.slice.Tensor(%3, %one, %none, %end, %two) : (!cleave.tensor, i64, none, i64, i64) -> !cleave.tensor
  return %4 : !cleave.tensor
}

// -----

// From a part of one dimension to a part of another; pieces are rank, offset and size.
// CHECK-LABEL: func.func @exchange
// CHECK-DAG: %[[PIECES:.*]] = cleave.constant([0, 0, 2, 1, 0, 2])
// CHECK-DAG: %[[RANGES:.*]] = cleave.per_rank({{\[\[}}0, 2], [2, 2]]) : !cleave.list<i64>
// CHECK: spmd.all_to_all(%{{.*}}, %{{.*}}, %[[PIECES]], %{{.*}}, %[[RANGES]])
func.func @exchange(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<4x6xf32>
  %none = cleave.constant(unit) : none
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<4x6xf32>, none) -> !cleave.tensor
  %1 = aten.transpose.int(%0, %zero, %one) : (!cleave.tensor, i64, i64) -> !cleave.tensor
  %2 = aten.add.Tensor(%1, %0, %one) : (!cleave.tensor, !cleave.tensor, i64) -> !cleave.tensor
  return %2 : !cleave.tensor
}

// -----

// A mean is the sum of the parts' means, each by its share: ranks have 3 and 4 of 7.
// CHECK-LABEL: func.func @mean
// CHECK: %[[OWN:.*]] = aten.mean.dim(
// CHECK: %[[SHARE:.*]] = cleave.per_rank([0.4285{{[0-9]*}}, 0.5714{{[0-9]*}}]) : f64
// CHECK: %[[PART:.*]] = aten.mul.Scalar(%[[OWN]], %[[SHARE]])
// CHECK: spmd.all_reduce(%[[PART]])
func.func @mean(%x: tensor<4x6xf32>) -> !cleave.tensor attributes {cleave.tp = 2 : i64} {
  %w = cleave.param "w" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<7x6xf32>
  %none = cleave.constant(unit) : none
  %last = cleave.constant([-1]) : !cleave.list<i64>
  %keep = cleave.constant(true) : i1
  %0 = aten.linear(%x, %w, %none) : (tensor<4x6xf32>, tensor<7x6xf32>, none) -> !cleave.tensor
  %1 = aten.mean.dim(%0, %last, %keep, %none) : (!cleave.tensor, !cleave.list<i64>, i1, none) -> !cleave.tensor
  return %1 : !cleave.tensor
}

// -----

// Observes say what ranks have of the value: a part of each row, then all of the sum.
// CHECK-LABEL: func.func @observed
// CHECK: %[[H:.*]] = aten.linear
// CHECK: cleave.observe %[[H]] "up" output 0 call 0 {shard = #cleave.sharding<1, [0, 4], [4, 5]>, whole = tensor<4x9xf32>} : !cleave.tensor
// CHECK: %[[SUM:.*]] = spmd.all_reduce
// CHECK: cleave.observe %[[SUM]] "down" output 0 call 0 : tensor<4x6xf32>
func.func @observed(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {cleave.tp = 2 : i64} {
  %up = cleave.param "up" {role = "parameter", cleave.weight_sharding = #cleave.weight_sharding<seed = <dim = 0>>} : tensor<9x6xf32>
  %down = cleave.param "down" {role = "parameter"} : tensor<6x9xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %up, %none) : (tensor<4x6xf32>, tensor<9x6xf32>, none) -> tensor<4x9xf32>
  cleave.observe %0 "up" output 0 call 0 : tensor<4x9xf32>
  %1 = aten.linear(%0, %down, %none) : (tensor<4x9xf32>, tensor<6x9xf32>, none) -> tensor<4x6xf32>
  cleave.observe %1 "down" output 0 call 0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
