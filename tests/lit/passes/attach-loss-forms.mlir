// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(y, t)"},infer-types))' | FileCheck %s --check-prefix=CLASSES
// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(y, same)"},infer-types))' | FileCheck %s --check-prefix=MSE
// RUN: cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="huber(y, same, delta=0.5)"},infer-types))' | FileCheck %s --check-prefix=HUBER
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(y, t)"}))' 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(z, t)"}))' 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(y, u)"}))' 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="hinge(y, t)"}))' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(y, same, beta=1)"}))' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="huber(y, same, delta=big)"}))' 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="mse(y)"}))' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(func.func(attach-loss{loss="cross_entropy(y, same)"}))' 2>&1 | FileCheck %s --check-prefix=TARGET

// Classes in dimension 1, as of images.
// CLASSES: aten.cross_entropy_loss(%arg0, %arg1, {{.*}} -> tensor<f32>
// MSE: aten.mse_loss(%arg0, %arg2, {{.*}} -> tensor<f32>
// HUBER: cleave.constant(5.000000e-01 : f64)
// HUBER: aten.huber_loss(
// TARGET: the loss: found labels 'tensor<2x3x4x4xf32>' for a result 'tensor<2x3x4x4xf32>', expected the result's shape without its classes, which are last or in dimension 1
// SHAPE: the loss: found 't' of type 'tensor<2x4x4xi64>', expected the shape of 'tensor<2x3x4x4xf32>'
// RESULT: the loss: found no results 'z', expected one of y
// INPUT: the loss: found no input 'u', expected one of argument 0, t, same; trace a model that takes it
// NAME: loss "hinge(y, t)": found "hinge", expected one of cross_entropy, nll, mse, l1, smooth_l1, huber, kl_div, binary_cross_entropy, binary_cross_entropy_with_logits, as in cross_entropy(logits, labels)
// OPTION: loss "mse(y, same, beta=1)": found the option "beta", which mse does not have
// NUMBER: loss "huber(y, same, delta=big)": option delta: found "big", expected a number
// FORM: loss "mse(y)": expected a result and an input in brackets, as in mse(logits, labels)
func.func @images(%y: tensor<2x3x4x4xf32>, %t: tensor<2x4x4xi64> {cleave.name = "t"},
                  %same: tensor<2x3x4x4xf32> {cleave.name = "same"}) -> (tensor<2x3x4x4xf32> {cleave.name = "y"}) {
  return %y : tensor<2x3x4x4xf32>
}
