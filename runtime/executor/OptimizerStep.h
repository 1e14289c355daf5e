//===- OptimizerStep.h - A step of an optimizer -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H
#define CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H

#include "codegen/plan/Plan.h"
#include <ATen/core/Tensor.h>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// Scalars are float32 tensors of one element: `gradScale` on the device of the weight, `learningRate` there
/// or on the CPU, the others on any device.
struct OptimizerInputs {
  /// Of the shape of the weight, and on its device.
  at::Tensor gradient;
  at::Tensor learningRate;
  /// From 1 on.
  at::Tensor stepNumber;
  /// The gradient is divided by it (`grad_scale` of the fused kernels); nullopt means 1.
  std::optional<at::Tensor> gradScale;
  /// 1 skips the update, 0 applies it (`found_inf`).
  at::Tensor foundInf;
};

/// Updates the weight and its states in place, by libtorch's fused kernels (`aten::_fused_adamw_`), which are
/// those of `torch.optim` with `fused=True`. May write to the gradient.
/// \param weight  contiguous, of floating-point numbers.
/// \param states  as in plan::OptimizerConfig; contiguous, of the dtype, shape and device of the weight.
/// Throws c10::Error if shapes, dtypes or devices do not fit.
void applyOptimizerStep(const plan::OptimizerConfig &config, at::Tensor weight,
                        std::vector<at::Tensor> states, const OptimizerInputs &inputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_OPTIMIZERSTEP_H
