// RUN: cleave-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(logits, labels, shift=true, label_smoothing=0.1)"},infer-types))' | FileCheck %s

// The label of a position is that of the next one.
// CHECK-LABEL: func.func @language(
// CHECK-SAME: tensor<f32> {cleave.name = "loss"})
// CHECK-SAME: cleave.output_tree = ["dict", "outputs", ["tuple", 0], "loss", 1]
// CHECK: aten.slice.Tensor(%arg0, {{.*}} -> tensor<4x7x100xf32, #cleave.layout<strides = ["800", "100", "1"]>>
// CHECK: aten.slice.Tensor(%arg1, {{.*}} -> tensor<4x7xi64
// CHECK: aten.reshape({{.*}} -> tensor<28x100xf32>
// CHECK: aten.reshape({{.*}} -> tensor<28xi64>
// CHECK: aten.cross_entropy_loss({{.*}} -> tensor<f32>
func.func @language(%logits: tensor<4x8x100xf32>, %labels: tensor<4x8xi64> {cleave.name = "labels"})
    -> (tensor<4x8x100xf32> {cleave.name = "output.logits"}) attributes {cleave.output_tree = ["tuple", 0]} {
  return %logits : tensor<4x8x100xf32>
}
