// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(y, t)"}))' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(y, t, class_dim=-1)"},infer-types))' | FileCheck %s --check-prefix=LAST
// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(y, t, class_dim=1)"},infer-types))' | FileCheck %s --check-prefix=SECOND

// With as many classes as rows either dimension may be that of the classes.
// BOTH: the loss: classes may be the last dimension of 'tensor<2x3x3xf32>', or dimension 1, expected class_dim=-1 or class_dim=1
// Indices of classes are cast to i64.
// LAST: aten.reshape({{.*}} -> tensor<6x3xf32>
// LAST: aten.to.dtype({{.*}} -> tensor<6xi64>
// LAST: aten.cross_entropy_loss
// SECOND-NOT: aten.reshape
// SECOND: aten.cross_entropy_loss(%arg0
func.func @square(%y: tensor<2x3x3xf32>, %t: tensor<2x3xi32> {cleave.name = "t"}) -> (tensor<2x3x3xf32> {cleave.name = "y"}) {
  return %y : tensor<2x3x3xf32>
}
