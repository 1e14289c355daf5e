//===- OptimizerStep.cpp --------------------------------------------------===//
#include "runtime/executor/OptimizerStep.h"
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <c10/util/Exception.h>

namespace cleave::runtime {

using at::Tensor;

/// The kernels read memory as one row of elements, and check nothing.
static void check(const Tensor &weight, const Tensor &other, const char *what) {
  TORCH_CHECK(other.sizes() == weight.sizes() && other.scalar_type() == weight.scalar_type() &&
                  other.device() == weight.device() && other.is_contiguous(),
              "found ", what, " of ", other.toString(), other.sizes(), ", expected ", weight.toString(),
              weight.sizes());
}

static void checkNumber(const Tensor &number, const char *what) {
  TORCH_CHECK(number.scalar_type() == at::kFloat && number.numel() == 1, "found ", what, " of ",
              number.toString(), number.sizes(), ", expected one float32");
}

void takeOptimizerStep(const plan::OptimizerStep &step, Tensor weight, std::vector<Tensor> states,
                       const OptimizerInputs &inputs) {
  TORCH_CHECK(weight.is_contiguous() && weight.is_floating_point(), "the weight is no row of floats");
  const Tensor gradient = inputs.gradient.to(weight.scalar_type()).contiguous();
  check(weight, gradient, "a gradient");
  for (const Tensor &state : states)
    check(weight, state, "a state");
  checkNumber(inputs.rate, "a learning rate");
  checkNumber(inputs.step, "a step");
  checkNumber(inputs.skip, "a mark that skips the step");
  if (inputs.divisor)
    checkNumber(*inputs.divisor, "a divisor");
  const Tensor skip = inputs.skip.to(weight.device());
  const std::vector<Tensor> weights{weight}, gradients{gradient};
  if (step.optimizer == plan::Optimizer::Sgd) {
    // A momentum of zeros is what torch.optim has before its first step, where `dampening` is 0.
    at::_fused_sgd_(weights, gradients, states, step.weight_decay, step.momentum, inputs.rate,
                    /*dampening=*/0, step.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    inputs.divisor, skip);
    return;
  }
  const std::vector<Tensor> firstMoments{states.at(0)}, secondMoments{states.at(1)},
      steps{inputs.step.to(weight.device())};
  using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::TensorList, const Tensor &, double, double, double, double, bool, bool,
                          const std::optional<Tensor> &, const std::optional<Tensor> &);
  const Kernel update =
      step.optimizer == plan::Optimizer::AdamW ? Kernel(&at::_fused_adamw_) : Kernel(&at::_fused_adam_);
  update(weights, gradients, firstMoments, secondMoments, /*max_exp_avg_sqs=*/{}, steps, inputs.rate,
         step.beta1, step.beta2, step.weight_decay, step.epsilon, /*amsgrad=*/false, /*maximize=*/false,
         inputs.divisor, skip);
}

} // namespace cleave::runtime
