//===- RecordBackward.cpp - PyTorch's backward pass of one call -----------===//
//
// The operands of the call are tensors without data. They have the dispatch key Fake, which lies below
// Autograd: CompositeImplicitAutograd operators are decomposed, and libtorch's formulas run. It lies above
// the backends and the decompositions of CompositeExplicitAutograd operators. Around the tensors is
// libtorch's functionalization, which replaces in-place operators within formulas. One boxed fallback for
// Fake sees each call made below autograd: it records the call, and makes the results by a call without data.
//
// `Fake` is marked as "to be deleted" in libtorch's DispatchKey.h. RecordBackwardTest names what broke if
// another version of libtorch records something else.
//
//===----------------------------------------------------------------------===//
#include "ir/autograd/RecordBackward.h"
#include "ir/IValueConversion.h"
#include "ir/inference/MetaCall.h"
#include "ir/inference/ShapeInference.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <mutex>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>
#include <unordered_map>

namespace cleave {

namespace functional = at::functionalization::impl;
using at::Tensor;
using c10::DispatchKey;
using c10::IValue;

static const c10::DispatchKeySet kRecordingKeys({DispatchKey::Functionalize, DispatchKey::Fake});

namespace {
/// A tensor without data on the CPU. Its backend key is Meta, so that libtorch's formulas take the branches
/// that read no values (ATen/TensorSubclassLikeUtils.h).
struct FakeTensor : c10::TensorImpl {
  FakeTensor(Tensor tensor, TensorId number)
      : TensorImpl(c10::DispatchKeySet({DispatchKey::Fake, DispatchKey::Meta}), tensor.dtype(),
                   c10::Device(at::kCPU)),
        meta(std::move(tensor)), number(number) {
    storage_ = meta.storage();
    copyGeometry();
  }

  void copyGeometry() { set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset()); }

  // A SavedVariable of an output is a detached copy; it keeps the tensor's id.
  template <typename Version> c10::intrusive_ptr<TensorImpl> copy(Version &&version, bool allows) const {
    auto copied = c10::make_intrusive<FakeTensor>(meta, number);
    copied->set_version_counter(std::forward<Version>(version));
    copied->set_allow_tensor_metadata_change(allows);
    return copied;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion &version,
                                                         bool allows) const override {
    return copy(version, allows);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion &&version,
                                                         bool allows) const override {
    return copy(std::move(version), allows);
  }

  /// On the meta device: stands for this tensor in calls without data.
  Tensor meta;
  TensorId number;
};

/// A call as the fallback sees it. Its tensors are fake or constants.
struct FakeCall {
  c10::OperatorHandle op;
  std::vector<IValue> operands, results;
};

struct Recorder {
  Tensor wrap(Tensor meta) { return Tensor(c10::make_intrusive<FakeTensor>(std::move(meta), tensors++)); }

  std::vector<FakeCall> calls;
  TensorId tensors = 0;
};
} // namespace

/// One recording at a time. Not thread-local, since autograd may run formulas on threads of its own.
static std::mutex recording;
static Recorder *recorder = nullptr;

/// The fake tensor inside `tensor`; null for constants and undefined tensors.
static FakeTensor *fakeOf(Tensor tensor) {
  if (tensor.defined() && functional::isFunctionalTensor(tensor)) {
    functional::sync(tensor);
    tensor = functional::from_functional_tensor(tensor);
  }
  return tensor.defined() && tensor.key_set().has(DispatchKey::Fake)
             ? static_cast<FakeTensor *>(tensor.unsafeGetTensorImpl())
             : nullptr;
}

/// The value with each tensor in it changed, undefined ones included.
static IValue mapTensors(const IValue &value, llvm::function_ref<Tensor(const Tensor &)> change) {
  if (value.isTensor())
    return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> changed;
    for (const Tensor &tensor : value.toTensorVector())
      changed.push_back(change(tensor));
    return changed;
  }
  if (!value.isOptionalTensorList())
    return value;
  c10::List<std::optional<Tensor>> changed;
  for (const std::optional<Tensor> &tensor : value.toOptionalTensorList())
    changed.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
  return changed;
}

/// The tensors in the values, undefined ones included.
static std::vector<Tensor> tensorsOf(llvm::ArrayRef<IValue> values) {
  std::vector<Tensor> tensors;
  for (const IValue &value : values)
    mapTensors(value, [&](const Tensor &tensor) {
      tensors.push_back(tensor);
      return tensor;
    });
  return tensors;
}

/// Makes the call on meta tensors.
static void callOnMeta(const c10::OperatorHandle &op, torch::jit::Stack &stack) {
  const std::string name = irNameOf(toString(op.operator_name()));
  const OperatorSchema *schema = findSchema(name);
  auto callee = findOperator(name);
  if (!schema || !callee)
    return op.callBoxed(&stack);
  auto failure = callWithoutData(*schema, *callee, stack);
  TORCH_CHECK(!failure, name, ": ", failure->reason);
}

static void recordCall(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard notAgain(kRecordingKeys);
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  std::vector<IValue> operands = torch::jit::pop(*stack, op.schema().arguments().size());
  std::unordered_map<c10::TensorImpl *, Tensor> fakeOfMeta;
  // Functionalization checks the shapes of in-place changes by calls on meta tensors, which are not recorded.
  bool isRecorded = true;
  torch::jit::Stack onMeta;
  for (const IValue &operand : operands)
    onMeta.push_back(operand.isDevice() ? IValue(c10::Device(at::kMeta))
                                        : mapTensors(operand, [&](const Tensor &tensor) {
                                            FakeTensor *fake = fakeOf(tensor);
                                            if (!fake) {
                                              isRecorded &= !tensor.defined() || !tensor.is_meta();
                                              return tensor;
                                            }
                                            fakeOfMeta[fake->meta.unsafeGetTensorImpl()] = tensor;
                                            return fake->meta;
                                          }));
  if (isRecorded || !op.schema().is_mutable())
    callOnMeta(op, onMeta);
  else
    onMeta.resize(op.schema().returns().size()); // the operands that it changes
  for (IValue &result : onMeta)
    result = mapTensors(result, [&](const Tensor &tensor) {
      auto operand = fakeOfMeta.find(tensor.unsafeGetTensorImpl());
      if (operand == fakeOfMeta.end())
        return isRecorded && tensor.defined() ? recorder->wrap(tensor) : tensor;
      // An in-place operator, or one with an `out` argument, returns it.
      fakeOf(operand->second)->copyGeometry();
      return operand->second;
    });
  if (isRecorded)
    recorder->calls.push_back({op, std::move(operands), {onMeta.begin(), onMeta.end()}});
  for (IValue &result : onMeta)
    stack->push_back(std::move(result));
}

static void registerFallback() {
  static torch::Library library = [] {
    torch::Library fallback(torch::Library::IMPL, "_", DispatchKey::Fake, __FILE__, __LINE__);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&recordCall>());
    return fallback;
  }();
}

static TensorId idOf(const Tensor &tensor) {
  FakeTensor *fake = fakeOf(tensor);
  return fake ? fake->number : -1;
}

/// A constant or the numbers of tensors. A 0-d tensor on the CPU is a number that a formula made a tensor of.
static RecordedValue toRecorded(const IValue &value) {
  const std::vector<Tensor> tensors = tensorsOf({value});
  if (!value.isTensor() && !value.isTensorList() && !value.isOptionalTensorList())
    return {RecordedValue::Kind::Constant, {}, value};
  if (value.isTensor() && tensors[0].defined() && !fakeOf(tensors[0])) {
    TORCH_CHECK(tensors[0].is_cpu() && tensors[0].dim() == 0, "a formula makes a constant tensor of shape ",
                tensors[0].sizes());
    return {RecordedValue::Kind::Constant, {}, value};
  }
  RecordedValue recorded{
      value.isTensor() ? RecordedValue::Kind::Tensor : RecordedValue::Kind::Tensors, {}, {}};
  for (const Tensor &tensor : tensors) {
    TORCH_CHECK(!tensor.defined() || fakeOf(tensor), "a formula makes a list with a constant tensor");
    recorded.tensors.push_back(idOf(tensor));
  }
  // An optional tensor that is absent is not among the tensors.
  if (value.isOptionalTensorList()) {
    recorded.tensors.clear();
    for (const std::optional<Tensor> &tensor : value.toOptionalTensorList())
      recorded.tensors.push_back(tensor ? idOf(*tensor) : -1);
  }
  return recorded;
}

static RecordedCall toRecorded(const FakeCall &call) {
  RecordedCall recorded;
  recorded.irName = irNameOf(toString(call.op.operator_name()));
  for (auto [operand, argument] : llvm::zip(call.operands, call.op.schema().arguments())) {
    recorded.operands.push_back(toRecorded(operand));
    recorded.operands.back().isSize = argument.real_type()->str().find("SymInt") != std::string::npos;
    recorded.operands.back().isScalar = argument.type()->kind() == c10::TypeKind::NumberType;
  }
  // A wrapped number does not widen the dtype of the tensors that it meets.
  if (!call.results.empty() && call.results[0].isTensor() && call.results[0].toTensor().is_floating_point())
    for (RecordedValue &operand : recorded.operands)
      if (operand.constant.isTensor() &&
          operand.constant.toTensor().unsafeGetTensorImpl()->is_wrapped_number())
        operand.constant = operand.constant.toTensor().to(call.results[0].toTensor().scalar_type());
  for (const IValue &result : call.results)
    recorded.results.push_back(toRecorded(result));
  return recorded;
}

namespace {
/// libtorch only warns of an operator without a derivative when gradients reach it.
struct MissingDerivatives : c10::WarningHandler {
  void process(const c10::Warning &warning) override {
    found |= warning.msg().find("an autograd kernel was not registered") != std::string::npos;
  }
  bool found = false;
};
} // namespace

/// A tensor like `like` whose calls are recorded.
static Tensor makeInput(const Tensor &like) {
  c10::impl::ExcludeDispatchKeyGuard off(kRecordingKeys);
  c10::InferenceMode normal(false);
  Tensor meta = at::empty_strided(like.sizes(), like.strides(), like.options().device(at::kMeta));
  if (like.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return functional::to_functional_tensor(recorder->wrap(meta));
}

Recording recordBackward(const torch::jit::Operator &callee, const torch::jit::Stack &operands,
                         const std::vector<Tensor> &gradients, const std::vector<bool> &needsInputGrad) {
  registerFallback();
  registerMetaKernels();
  std::lock_guard lock(recording);
  Recorder ours;
  recorder = &ours;
  auto ended = llvm::make_scope_exit([] { recorder = nullptr; });
  c10::InferenceMode normal(false);
  at::AutoGradMode withGradients(true);
  MissingDerivatives missing;
  c10::WarningUtils::WarningHandlerGuard handled(&missing);

  Recording result;
  std::vector<Tensor> wanted;
  torch::jit::Stack stack;
  for (const IValue &operand : operands)
    stack.push_back(mapTensors(operand, [&](const Tensor &tensor) {
      if (!tensor.defined())
        return tensor;
      Tensor input = makeInput(tensor);
      if (needsInputGrad[result.operands.size()])
        wanted.push_back(input.requires_grad_());
      result.operands.push_back(idOf(input));
      return input;
    }));
  // What formulas make of sizes alone (zeros) is to be recorded, too.
  c10::impl::IncludeDispatchKeyGuard on(kRecordingKeys);
  functional::FunctionalizationReapplyViewsGuard keepsViews(true);
  callee.getOperation()(stack);
  std::vector<Tensor> differentiated, given;
  TORCH_CHECK(tensorsOf(stack).size() == gradients.size(), "the number of its results depends on sizes");
  for (auto [i, tensor] : llvm::enumerate(tensorsOf(stack))) {
    result.results.push_back(idOf(tensor));
    result.gradOutputs.push_back(-1);
    if (!gradients[i].defined() || !tensor.defined() || !tensor.requires_grad())
      continue;
    differentiated.push_back(tensor);
    given.push_back(makeInput(gradients[i]));
    result.gradOutputs.back() = idOf(given.back());
  }
  result.numForwardCalls = ours.calls.size();
  result.gradInputs.assign(result.operands.size(), -1);
  if (!differentiated.empty()) {
    const auto found = torch::autograd::grad(differentiated, wanted, given, /*retain_graph=*/{},
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < needsInputGrad.size(); ++i)
      if (needsInputGrad[i])
        result.gradInputs[i] = idOf(found[next++]);
  }
  TORCH_CHECK(!missing.found, callee.schema().name(), " has no derivative");
  for (const FakeCall &call : ours.calls)
    result.calls.push_back(toRecorded(call));
  return result;
}

} // namespace cleave
