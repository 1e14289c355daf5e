// RUN: cleave-opt %s --accumulate-gradients --verify-diagnostics --split-input-file
// RUN: not cleave-opt %s --add-optimizer="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not cleave-opt %s --add-optimizer="optimizer='adam(momentum=0.9)'" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not cleave-opt %s --add-optimizer="optimizer='adam(beta1=1)'" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not cleave-opt %s --add-optimizer="optimizer='sgd(nesterov=true)'" 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not cleave-opt %s --add-optimizer="optimizer='sgd(momentum=0.9'" 2>&1 | FileCheck %s --check-prefix=BRACKET
// RUN: not cleave-opt %s --add-optimizer="optimizer='sgd(momentum=0.9, momentum=0.8)'" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %s --add-optimizer="no-decay=v.*" 2>&1 | FileCheck %s --check-prefix=DECAY

// NAME: optimizer lion: expected sgd, adam or adamw, as in sgd(momentum=0.9)
// OPTION: optimizer adam(momentum=0.9): found the option "momentum", which adam does not have
// RANGE: option beta1: found "1", expected a number from 0 to below 1
// NESTEROV: nesterov requires a momentum
// BRACKET: expected options in parentheses
// TWICE: option momentum is given twice
// DECAY: no-decay: found "v.*", which matches none, expected a name as w, with * and ?

// expected-error @below {{found no loss among the results, expected a function with gradients; run differentiate first}}
func.func @no_loss(%x: tensor<4xf32>) -> (tensor<4xf32> {cleave.name = "grad.w"}) {
  %w = cleave.param "w" {role = "parameter"} : tensor<4xf32>
  return %w : tensor<4xf32>
}

// -----

// expected-error @below {{found no gradient of a weight}}
func.func @no_gradient(%x: tensor<f32>) -> (tensor<f32> {cleave.name = "loss", cleave.loss}) {
  return %x : tensor<f32>
}
