//===- OriginalLoss.cpp ---------------------------------------------------===//
#include "tools/driver/verify/OriginalLoss.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/ATen.h>

namespace cleave {

using at::Tensor;

llvm::Expected<OriginalLoss> OriginalLoss::parse(llvm::StringRef text) {
  OriginalLoss loss;
  if (!text.contains('(')) {
    loss.output = text.str();
    return loss;
  }
  auto call = parseLoss(text);
  if (!call)
    return call.takeError();
  loss.call = std::move(*call);
  return loss;
}

static llvm::Expected<Tensor> findOutput(llvm::ArrayRef<runtime::NamedTensor> outputs, llvm::StringRef name) {
  auto isNamed = [&](const runtime::NamedTensor &output) { return output.name == name; };
  auto isSuffixed = [&](const runtime::NamedTensor &output) {
    return llvm::StringRef(output.name).ends_with(("." + name).str());
  };
  for (auto matches : {llvm::function_ref<bool(const runtime::NamedTensor &)>(isNamed),
                       llvm::function_ref<bool(const runtime::NamedTensor &)>(isSuffixed)})
    if (auto found = llvm::find_if(outputs, matches); found != outputs.end())
      return found->tensor;
  auto names = llvm::map_range(outputs, [](const runtime::NamedTensor &output) { return output.name; });
  return llvm::createStringError("the loss: found " + llvm::join(names, ", ") + ", expected an output '" +
                                 name + "'; give the --loss that the plan was compiled with");
}

static double option(const LossCall &call, const char *name, double defaultValue) {
  auto given = call.options.find(name);
  return given == call.options.end() ? defaultValue : given->second;
}

/// Makes the classes dimension 1 of the result, and drops the last position where the target is one ahead.
static llvm::Error arrangeClasses(const LossCall &call, Tensor &result, Tensor &target) {
  const int64_t dims = result.dim(), classDim = int64_t(option(call, "class_dim", 0));
  const bool isShifted = option(call, "shift", 0) != 0;
  auto hasSizesWithout = [&](int64_t dim) {
    auto sizes = result.sizes().vec();
    sizes.erase(sizes.begin() + dim);
    return target.sizes() == at::IntArrayRef(sizes);
  };
  const bool isLast = dims > 0 && classDim != 1 && hasSizesWithout(dims - 1),
             isSecond = dims > 1 && classDim != -1 && !isShifted && hasSizesWithout(1);
  if (isLast && isSecond && dims > 2)
    return llvm::createStringError(
        "the loss: at these sizes classes may be the last dimension of the result, "
        "or dimension 1; add class_dim=-1 or class_dim=1 to the --loss");
  if (!isLast && !isSecond)
    return llvm::createStringError("the loss: found labels and a result whose shapes do not fit; give the "
                                   "--loss that the plan was compiled with");
  if (!isLast)
    return llvm::Error::success();
  if (isShifted) {
    result = result.narrow(dims - 2, 0, result.size(dims - 2) - 1);
    target = target.narrow(dims - 2, 1, target.size(dims - 2) - 1);
  }
  result = result.movedim(-1, dims > 1 ? 1 : 0);
  return llvm::Error::success();
}

static Tensor callLoss(const LossCall &call, const Tensor &result, const Tensor &target) {
  constexpr auto kMean = at::Reduction::Mean;
  const auto ignored = int64_t(option(call, "ignore_index", -100));
  if (call.name == "cross_entropy")
    return at::cross_entropy_loss(result, target, {}, kMean, ignored, option(call, "label_smoothing", 0));
  if (call.name == "nll")
    return at::nll_loss_nd(result, target, {}, kMean, ignored);
  if (call.name == "mse")
    return at::mse_loss(result, target, kMean);
  if (call.name == "l1")
    return at::l1_loss(result, target, kMean);
  if (call.name == "smooth_l1")
    return at::smooth_l1_loss(result, target, kMean, option(call, "beta", 1));
  if (call.name == "huber")
    return at::huber_loss(result, target, kMean, option(call, "delta", 1));
  if (call.name == "kl_div")
    return at::kl_div(result, target, kMean, option(call, "log_target", 0) != 0);
  if (call.name == "binary_cross_entropy")
    return at::binary_cross_entropy(result, target, {}, kMean);
  if (call.name == "binary_cross_entropy_with_logits")
    return at::binary_cross_entropy_with_logits(result, target, {}, {}, kMean);
  return {};
}

llvm::Expected<Tensor> OriginalLoss::compute(llvm::ArrayRef<runtime::NamedTensor> outputs,
                                             const plan::Signature &signature,
                                             llvm::ArrayRef<Tensor> inputs) const {
  if (!call) {
    if (output.empty() && outputs.size() == 1)
      return outputs.front().tensor;
    return findOutput(outputs, output.empty() ? "loss" : output);
  }
  auto result = findOutput(outputs, call->result);
  if (!result)
    return result.takeError();
  auto input = llvm::find_if(signature.inputs, [&](auto &input) { return input->name == call->target; });
  if (input == signature.inputs.end())
    return llvm::createStringError("the loss: found no input '" + call->target +
                                   "'; give the --loss that the plan was compiled with");
  Tensor target = inputs[input - signature.inputs.begin()];
  if (call->name == "cross_entropy" || call->name == "nll") {
    target = target.to(at::kLong);
    if (llvm::Error error = arrangeClasses(*call, *result, target))
      return error;
  } else if (target.sizes() != result->sizes()) {
    return llvm::createStringError("the loss: found '" + call->target + "' and '" + call->result +
                                   "' of different shapes; give the --loss that the plan was compiled with");
  } else {
    target = target.to(result->scalar_type());
  }
  Tensor loss = callLoss(*call, *result, target);
  if (!loss.defined())
    return llvm::createStringError("the loss: verify cannot compute " + call->name);
  return loss;
}

} // namespace cleave
