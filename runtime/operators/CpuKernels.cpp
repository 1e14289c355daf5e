//===- CpuKernels.cpp - Faster CPU kernels of operators -------------------===//
#include "runtime/operators/CpuKernels.h"
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

namespace cleave::runtime {

using torch::jit::Stack;

/// Multiplications from which on oneDNN's set-up, about 20 µs, is paid back.
static constexpr int64_t kMinWork = 4'000'000;

static bool isMatrix(const at::Tensor &tensor) {
  return tensor.dim() == 2 && (tensor.is_contiguous() || tensor.t().is_contiguous());
}

static bool isPlain(const at::Tensor &tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         tensor.device().is_cpu() && !tensor.is_neg();
}

/// True if oneDNN supports input[…, k] · weight[n, k] + bias[n], and is faster.
static bool isLargeProduct(const at::Tensor &input, const at::Tensor &weight,
                           const std::optional<at::Tensor> &bias) {
  // Autocast then multiplies in a narrower type; and autograd has no derivative of oneDNN's operator.
  if (at::autocast::is_autocast_enabled(at::kCPU) || at::GradMode::is_enabled())
    return false;
  if (!isPlain(input) || !isPlain(weight) || !isMatrix(weight) || input.dim() < 2 ||
      input.size(-1) != weight.size(1))
    return false;
  // oneDNN reads the bias as if its numbers stood side by side.
  if (bias &&
      (!isPlain(*bias) || bias->dim() != 1 || bias->size(0) != weight.size(0) || !bias->is_contiguous()))
    return false;
  // One row is a matrix times a vector, which memory bounds.
  const int64_t rows = weight.size(1) ? input.numel() / weight.size(1) : 0;
  return rows > 1 && rows * weight.numel() >= kMinWork;
}

static at::Tensor oneDnnLinear(const at::Tensor &input, const at::Tensor &weight,
                               const std::optional<at::Tensor> &bias) {
  using Signature =
      at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &, std::string_view,
                 c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto kernel =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  return kernel.call(input, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

static std::optional<at::Tensor> optionalTensor(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() ? std::optional(value.toTensor()) : std::nullopt;
}

/// Replaces the operator's operands on the stack by its result.
static void finish(Stack &stack, size_t operands, at::Tensor result) {
  torch::jit::drop(stack, operands);
  stack.emplace_back(std::move(result));
}

torch::jit::Operation cpuKernel(llvm::StringRef name, torch::jit::Operation operation) {
  if (!at::globalContext().userEnabledMkldnn() || !at::hasMKLDNN())
    return operation;
  if (name == "aten::linear")
    return [operation](Stack &stack) mutable {
      const at::Tensor &input = torch::jit::peek(stack, 0, 3).toTensor(),
                       &weight = torch::jit::peek(stack, 1, 3).toTensor();
      std::optional<at::Tensor> bias = optionalTensor(torch::jit::peek(stack, 2, 3));
      if (!isLargeProduct(input, weight, bias))
        return operation(stack);
      finish(stack, 3, oneDnnLinear(input, weight, bias));
    };
  if (name == "aten::addmm")
    // addmm(bias, input, weight transposed, beta, alpha).
    return [operation](Stack &stack) mutable {
      std::optional<at::Tensor> bias = optionalTensor(torch::jit::peek(stack, 0, 5));
      const at::Tensor &input = torch::jit::peek(stack, 1, 5).toTensor(),
                       &matrix = torch::jit::peek(stack, 2, 5).toTensor();
      bool isScaled = torch::jit::peek(stack, 3, 5).toScalar().toDouble() != 1 ||
                      torch::jit::peek(stack, 4, 5).toScalar().toDouble() != 1;
      if (isScaled || matrix.dim() != 2 || !isLargeProduct(input, matrix.t(), bias))
        return operation(stack);
      finish(stack, 5, oneDnnLinear(input, matrix.t(), bias));
    };
  if (name == "aten::mm")
    return [operation](Stack &stack) mutable {
      const at::Tensor &left = torch::jit::peek(stack, 0, 2).toTensor(),
                       &right = torch::jit::peek(stack, 1, 2).toTensor();
      // MKL multiplies a transposed left matrix as it is, oneDNN a copy.
      if (left.dim() != 2 || right.dim() != 2 || !left.is_contiguous() ||
          !isLargeProduct(left, right.t(), std::nullopt))
        return operation(stack);
      finish(stack, 2, oneDnnLinear(left, right.t(), std::nullopt));
    };
  return operation;
}

} // namespace cleave::runtime
