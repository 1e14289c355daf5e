//===- MetaCall.cpp - Calls of operators without data ---------------------===//
#include "ir/inference/MetaCall.h"
#include "ir/inference/MetaKernels.h"
#include "ir/semantics/OpSemantics.h"
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>

namespace cleave {

using llvm::StringRef;

/// Limit of the bytes of an operand that is filled with a number to try an operator.
static constexpr int64_t kMaxFallbackBytes = 64 << 20;

at::Tensor withoutData(const at::Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

/// True if the operator's result types are the same with zeros as data.
static bool hasTypesWithoutData(const OperatorSchema &schema) {
  return (semanticsOf(schema.irName).hasStaticResultTypes || isOfAutograd(schema.irName)) &&
         !schema.isDataDependent && !schema.isRandom;
}

/// A CPU tensor of `number` in place of a meta tensor; nothing if it would be too large.
static std::optional<at::Tensor> filledLike(const at::Tensor &tensor, int number) {
  if (!tensor.defined() || !tensor.is_meta())
    return tensor;
  // A tensor with repeated elements has more elements than memory.
  if (std::max(int64_t(tensor.storage().nbytes()), int64_t(tensor.nbytes())) > kMaxFallbackBytes)
    return std::nullopt;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).fill_(number);
}

/// Applies `change` to every tensor on the stack, also inside lists; false if it returns nothing for one.
static bool changeTensors(torch::jit::Stack &stack,
                          llvm::function_ref<std::optional<at::Tensor>(const at::Tensor &)> change) {
  for (c10::IValue &value : stack) {
    if (value.isTensor()) {
      auto changed = change(value.toTensor());
      if (!changed)
        return false;
      value = *changed;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector()) {
        auto changed = change(tensor);
        if (!changed)
          return false;
        list.push_back(*changed);
      }
      value = std::move(list);
    }
  }
  return true;
}

/// Replaces all tensors except 0-d ones by meta tensors.
static std::optional<at::Tensor> onMeta(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.dim() > 0 ? withoutData(tensor) : tensor;
}

/// Runs the CPU kernel of an operator without a meta kernel on tensors of `number`. Only types of the results
/// are kept, since their values are not the model's.
static bool runFilled(const torch::jit::Operator &callee, torch::jit::Stack &stack, int number) {
  if (!changeTensors(stack, [&](const at::Tensor &tensor) { return filledLike(tensor, number); }))
    return false;
  for (c10::IValue &value : stack)
    if (value.isDevice())
      value = at::Device(at::kCPU);
  callee.getOperation()(stack);
  bool hasOnlyTensors =
      llvm::all_of(stack, [](const c10::IValue &value) { return value.isTensor() || value.isTensorList(); });
  return hasOnlyTensors && changeTensors(stack, [](const at::Tensor &tensor) -> std::optional<at::Tensor> {
           return tensor.defined() ? withoutData(tensor) : tensor;
         });
}

/// The message of an exception, without libtorch's advice to authors of operators. `what()` would look up the
/// symbols of a backtrace, which takes far longer than the failed call.
static std::string messageOf(const std::exception &exception) {
  auto *error = dynamic_cast<const c10::Error *>(&exception);
  StringRef text(error ? error->what_without_backtrace() : exception.what());
  text = text.split('\n').first;
  for (StringRef advice : {". This could be ", ". You may ", ". If you ", ". Please "})
    text = text.split(advice).first;
  return text.rtrim('.').str();
}

/// True if the meta kernel is written in Python. libtorch would call an interpreter for it, which Cleave does
/// not have.
static bool isPythons(const torch::jit::Operator &callee) {
  auto &dispatcher = c10::Dispatcher::singleton();
  const c10::OperatorName name = callee.schema().operator_name();
  if (!dispatcher.getPyStub(name))
    return false;
  auto handle = dispatcher.findOp(name);
  // Computed kernels do not count, since the fallback that calls Python is one.
  using c10::DispatchKey;
  return handle && llvm::none_of(std::initializer_list<DispatchKey>{DispatchKey::Meta,
                                                                    DispatchKey::CompositeImplicitAutograd,
                                                                    DispatchKey::CompositeExplicitAutograd},
                                 [&](DispatchKey key) { return handle->hasKernelForDispatchKey(key); });
}

void callOnMeta(const OperatorSchema &schema, const torch::jit::Operator &callee, torch::jit::Stack &stack) {
  const c10::KernelFunction *kernel = findCompositeKernel(schema.irName);
  if (!kernel || llvm::none_of(stack, [](const c10::IValue &value) {
        return value.isTensor() && value.toTensor().defined() && value.toTensor().is_meta();
      }))
    return callee.getOperation()(stack);
  auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(callee.schema().name().c_str(),
                                                               callee.schema().overload_name().c_str());
  kernel->callBoxed(handle, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
}

std::optional<CallFailure> callWithoutData(const OperatorSchema &schema, const torch::jit::Operator &callee,
                                           torch::jit::Stack &stack) {
  // Tries the call as it is, then without the known integers, which may meet meta tensors, then on zeros and
  // ones.
  torch::jit::Stack withoutIntegers = stack;
  const torch::jit::Stack asGiven = stack;
  static constexpr const char kNoKernel[] = "libtorch has no kernel for it that needs no data";
  CallFailure failure;
  failure.reason = kNoKernel;
  const bool hasKernel = !isPythons(callee);
  auto isDone = [&](llvm::function_ref<bool()> attempt) {
    try {
      return attempt();
    } catch (const c10::NotImplementedError &) {
      failure = {kNoKernel, /*isRefusal=*/false};
    } catch (const std::exception &e) {
      failure = {messageOf(e), /*isRefusal=*/true};
    }
    return false;
  };
  if (hasKernel && isDone([&] {
        callOnMeta(schema, callee, stack);
        return true;
      }))
    return std::nullopt;
  if (hasKernel && isDone([&] {
        changeTensors(withoutIntegers, onMeta);
        callOnMeta(schema, callee, withoutIntegers);
        return true;
      })) {
    stack = std::move(withoutIntegers);
    return std::nullopt;
  }
  // Only the CPU kernel decides whether the operands are wrong.
  failure.isRefusal = false;
  if (!hasTypesWithoutData(schema))
    return failure;
  // Zeros are valid indices of any table; ones are valid divisors.
  for (int number : {0, 1}) {
    torch::jit::Stack filled = asGiven;
    if (!isDone([&] { return runFilled(callee, filled, number); }))
      continue;
    stack = std::move(filled);
    return std::nullopt;
  }
  return failure;
}

} // namespace cleave
