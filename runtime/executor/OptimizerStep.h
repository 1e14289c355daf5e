//===- OptimizerStep.h - A step of an optimizer -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H
#define CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H

#include "codegen/plan/Plan.h"
#include <ATen/core/Tensor.h>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// All but the gradient are single numbers in float32, on the device of the weight or, `rate` and `step`, on
/// the CPU.
struct OptimizerInputs {
  at::Tensor gradient;
  /// Learning rate, and number of the step, from 1 on.
  at::Tensor rate, step;
  /// What the gradient is divided by; nothing: 1.
  std::optional<at::Tensor> divisor;
  /// 1: nothing changes. Else 0.
  at::Tensor skip;
};

/// Changes the weight and the states in place, by libtorch's fused kernels (`aten::_fused_adamw_`), which are
/// those of `torch.optim` with `fused=True`. May write to the gradient. Throws if sizes or dtypes do not fit.
void takeOptimizerStep(const plan::OptimizerStep &step, at::Tensor weight, std::vector<at::Tensor> states,
                       const OptimizerInputs &inputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H
