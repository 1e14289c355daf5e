//===- OptimizerStep.cpp --------------------------------------------------===//
#include "runtime/executor/OptimizerStep.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <c10/util/Exception.h>

namespace cleave::runtime {

using at::Tensor;

/// The fused kernels treat tensors as flat contiguous arrays and do not check sizes.
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

/// torch.optim.SGD operation by operation. libtorch's fused kernel for CPUs leaves narrow weights as they
/// are, but for the last few of a tensor (2.11.0).
static void applySgd(const plan::OptimizerConfig &config, const Tensor &weight, Tensor gradient,
                     llvm::ArrayRef<Tensor> states, const OptimizerInputs &inputs) {
  if (inputs.foundInf.item<float>() != 0)
    return;
  if (inputs.gradScale)
    gradient.div_(inputs.gradScale->to(at::kCPU));
  if (config.weight_decay != 0)
    gradient.add_(weight, config.weight_decay);
  if (config.momentum != 0) {
    const Tensor &buffer = states.front();
    buffer.mul_(config.momentum).add_(gradient);
    if (config.nesterov)
      gradient.add_(buffer, config.momentum);
    else
      gradient = buffer;
  }
  weight.add_(gradient, -inputs.learningRate.item<double>());
}

void applyOptimizerStep(const plan::OptimizerConfig &config, Tensor weight, std::vector<Tensor> states,
                        const OptimizerInputs &inputs) {
  TORCH_CHECK(weight.is_contiguous() && weight.is_floating_point(),
              "the weight is not a contiguous floating-point tensor");
  const Tensor gradient = inputs.gradient.to(weight.scalar_type()).contiguous();
  check(weight, gradient, "a gradient");
  for (const Tensor &state : states)
    check(weight, state, "a state");
  checkNumber(inputs.learningRate, "a learning rate");
  checkNumber(inputs.stepNumber, "a step");
  checkNumber(inputs.foundInf, "a found_inf");
  if (inputs.gradScale)
    checkNumber(*inputs.gradScale, "a grad_scale");
  const std::optional<Tensor> gradScale =
      inputs.gradScale ? std::optional(inputs.gradScale->to(weight.device())) : std::nullopt;
  const Tensor foundInf = inputs.foundInf.to(weight.device());
  const std::vector<Tensor> weights{weight}, gradients{gradient};
  if (config.optimizer == plan::Optimizer::Sgd && weight.is_cpu() && weight.element_size() < 4)
    return applySgd(config, weight, gradient, states, inputs);
  if (config.optimizer == plan::Optimizer::Sgd) {
    // A momentum of zeros is what torch.optim has before its first step, where `dampening` is 0.
    at::_fused_sgd_(weights, gradients, states, config.weight_decay, config.momentum, inputs.learningRate,
                    /*dampening=*/0, config.nesterov, /*maximize=*/false, /*is_first_step=*/false, gradScale,
                    foundInf);
    return;
  }
  const std::vector<Tensor> firstMoments{states.at(0)}, secondMoments{states.at(1)},
      steps{inputs.stepNumber.to(weight.device())};
  using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::TensorList, const Tensor &, double, double, double, double, bool, bool,
                          const std::optional<Tensor> &, const std::optional<Tensor> &);
  const Kernel update =
      config.optimizer == plan::Optimizer::AdamW ? Kernel(&at::_fused_adamw_) : Kernel(&at::_fused_adam_);
  update(weights, gradients, firstMoments, secondMoments, /*max_exp_avg_sqs=*/{}, steps, inputs.learningRate,
         config.beta1, config.beta2, config.weight_decay, config.epsilon, /*amsgrad=*/false,
         /*maximize=*/false, gradScale, foundInf);
}

} // namespace cleave::runtime
