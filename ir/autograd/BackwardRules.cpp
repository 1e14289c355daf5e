//===- BackwardRules.cpp - The backward pass of one operation -------------===//
#include "ir/autograd/BackwardRules.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

using namespace mlir;

namespace cleave {

using Source = RuleTensor::Source;

//===- One recording in place of all samples ------------------------------===//

static bool isInteger(const c10::IValue &value) {
  return value.isInt() || (value.isTensor() && c10::isIntegralType(value.toTensor().scalar_type(), false));
}
static bool isFloat(const c10::IValue &value) {
  return value.isDouble() || (value.isTensor() && c10::isFloatingType(value.toTensor().scalar_type()));
}
static int64_t integerOf(const c10::IValue &value) {
  return value.isInt() ? value.toInt() : value.toTensor().item<int64_t>();
}
static double floatOf(const c10::IValue &value) {
  return value.isDouble() ? value.toDouble() : value.toTensor().item<double>();
}

/// True if two operands differ at most in the values of integers and floats.
static bool isAlike(const RecordedValue &a, const RecordedValue &b) {
  if (a.kind != b.kind || a.tensors != b.tensors)
    return false;
  if (a.kind != RecordedValue::Kind::Constant)
    return true;
  const c10::IValue &left = a.constant, &right = b.constant;
  if (isInteger(left) || isFloat(left))
    return left.isTensor() == right.isTensor() && isInteger(left) == isInteger(right) &&
           isFloat(left) == isFloat(right);
  if (left.isIntList())
    return right.isIntList() && left.toIntList().size() == right.toIntList().size();
  if (left.isTensor() || right.isTensor())
    return false;
  return left == right;
}

static bool isAlike(const Recording &a, const Recording &b) {
  if (a.calls.size() != b.calls.size() || a.numForwardCalls != b.numForwardCalls ||
      a.operands != b.operands || a.results != b.results || a.gradOutputs != b.gradOutputs ||
      a.gradInputs != b.gradInputs)
    return false;
  for (auto [left, right] : llvm::zip(a.calls, b.calls)) {
    if (left.irName != right.irName || left.operands.size() != right.operands.size())
      return false;
    for (auto [x, y] : llvm::zip(left.operands, right.operands))
      if (!isAlike(x, y))
        return false;
    for (auto [x, y] : llvm::zip(left.results, right.results))
      if (!isAlike(x, y))
        return false;
  }
  return true;
}

/// By sample, the sizes of a tensor; empty where it is not known.
using Shapes = std::vector<std::vector<int64_t>>;

/// True if integers that are no sizes are the same: indices of dimensions, flags. They are not where sizes of
/// 1 let a formula take another branch.
static bool hasSameDimensions(const Recording &a, const Recording &b) {
  return llvm::all_of(llvm::zip(a.calls, b.calls), [](auto calls) {
    auto &[left, right] = calls;
    return llvm::all_of(llvm::zip(left.operands, right.operands), [](auto operands) {
      auto &[x, y] = operands;
      const bool isDimension = !x.isSize && !x.isScalar && (x.constant.isInt() || x.constant.isIntList());
      return !isDimension || x.constant == y.constant;
    });
  });
}

namespace {
/// Makes a rule of the recordings at all samples, which differ at most in the values of integers and floats.
class RuleMaker {
public:
  /// \param recordings  by sample; null where nothing was observed.
  /// \param shapes  of the operands' tensors.
  /// \param floats  among the operands, which formulas may divide by sizes.
  RuleMaker(std::vector<const Recording *> recordings, const Recording &reference, DimFitter &fitter,
            std::vector<Shapes> shapes, std::vector<double> floats)
      : recordings(std::move(recordings)), reference(reference), fitter(fitter), shapes(std::move(shapes)),
        floats(std::move(floats)) {}

  llvm::Expected<BackwardRule> make();

private:
  using Get = llvm::function_ref<int64_t(const Recording &)>;
  /// The size that is `get` of the recording at each sample; nothing if none is.
  std::optional<RuleSize> fit(Get get);
  std::optional<RuleOperand> makeFloat(llvm::function_ref<double(const Recording &)> get);
  std::optional<RuleOperand> makeOperand(size_t call, size_t operand);
  llvm::Expected<RuleCall> makeCall(size_t call);
  /// Maps the results of call `recorded` of the recording to those of `call` of the rule.
  void define(size_t recorded, unsigned call);
  /// True if the backward pass needs only operands, results and views of these; `views` are the calls that
  /// make the views.
  bool staysWithViews(std::vector<size_t> &views) const;
  std::vector<TensorId> usedByBackward() const;
  RuleTensor tensorOf(TensorId number) const { return number < 0 ? RuleTensor{} : tensors.at(number); }

  std::vector<const Recording *> recordings;
  const Recording &reference;
  DimFitter &fitter;
  const std::vector<Shapes> shapes;
  const std::vector<double> floats;
  std::map<TensorId, RuleTensor> tensors;
};
} // namespace

std::optional<RuleSize> RuleMaker::fit(Get get) {
  std::vector<int64_t> observed;
  for (const Recording *recording : recordings)
    observed.push_back(recording ? get(*recording) : DimFitter::kNotObserved);
  if (const SymbolicDim &dim = fitter.fit(observed); !dim.isUnknown())
    return RuleSize{dim, {}, 0};
  for (auto [index, shape] : llvm::enumerate(shapes))
    for (size_t dim = 0; dim < shape[0].size(); ++dim)
      if (llvm::all_of(llvm::zip(observed, shape), [&](auto pair) {
            auto &[size, sizes] = pair;
            return size == DimFitter::kNotObserved || (dim < sizes.size() && sizes[dim] == size);
          }))
        return RuleSize{{}, {Source::Operand, unsigned(index)}, unsigned(dim)};
  return std::nullopt;
}

/// A number that is the same at all samples, or one divided by a size, as in means and variances: the
/// numerator is a small integer of a formula, or a float among the operands.
std::optional<RuleOperand> RuleMaker::makeFloat(llvm::function_ref<double(const Recording &)> get) {
  const double first = get(reference);
  RuleOperand made;
  made.constant = first;
  if (llvm::all_of(recordings, [&](const Recording *recording) {
        return !recording || get(*recording) == first || (std::isnan(first) && std::isnan(get(*recording)));
      }))
    return made;
  std::vector<double> numerators{1, 2, 3, 4};
  llvm::append_range(numerators, floats);
  for (double numerator : numerators) {
    auto denominatorAt = [&](const Recording &recording) { return std::round(numerator / get(recording)); };
    const bool isExact = llvm::all_of(recordings, [&](const Recording *recording) {
      return !recording || (std::abs(denominatorAt(*recording)) < 1e15 &&
                            numerator / denominatorAt(*recording) == get(*recording));
    });
    auto size = isExact ? fit([&](const Recording &recording) { return int64_t(denominatorAt(recording)); })
                        : std::nullopt;
    if (!size)
      continue;
    made.kind = RuleOperand::Kind::Ratio;
    made.constant = numerator;
    made.sizes = {*size};
    return made;
  }
  return std::nullopt;
}

std::optional<RuleOperand> RuleMaker::makeOperand(size_t call, size_t operand) {
  const RecordedValue &recorded = reference.calls[call].operands[operand];
  auto constantIn = [&](const Recording &recording) -> const c10::IValue & {
    return recording.calls[call].operands[operand].constant;
  };
  RuleOperand made;
  if (recorded.kind != RecordedValue::Kind::Constant) {
    made.kind =
        recorded.kind == RecordedValue::Kind::Tensor ? RuleOperand::Kind::Tensor : RuleOperand::Kind::Tensors;
    for (TensorId number : recorded.tensors)
      made.tensors.push_back(tensorOf(number));
    return made;
  }
  if (isFloat(recorded.constant)) {
    auto number = makeFloat([&](const Recording &recording) { return floatOf(constantIn(recording)); });
    if (number && recorded.constant.isTensor())
      number->asTensor = recorded.constant.toTensor().scalar_type();
    return number;
  }
  if (isInteger(recorded.constant)) {
    auto size = fit([&](const Recording &recording) { return integerOf(constantIn(recording)); });
    if (!size)
      return std::nullopt;
    made.kind = RuleOperand::Kind::Size;
    made.sizes = {*size};
    if (recorded.constant.isTensor())
      made.asTensor = recorded.constant.toTensor().scalar_type();
    return made;
  }
  made.constant = recorded.constant;
  if (!recorded.constant.isIntList())
    return made;
  made.kind = RuleOperand::Kind::Sizes;
  for (size_t i = 0; i < recorded.constant.toIntList().size(); ++i) {
    auto size = fit([&](const Recording &recording) { return constantIn(recording).toIntList().get(i); });
    if (!size)
      return std::nullopt;
    made.sizes.push_back(*size);
  }
  return made;
}

llvm::Expected<RuleCall> RuleMaker::makeCall(size_t call) {
  const RecordedCall &recorded = reference.calls[call];
  RuleCall made;
  made.irName = recorded.irName;
  for (size_t i = 0; i < recorded.operands.size(); ++i) {
    if (recorded.operands[i].constant.isComplexDouble())
      return llvm::createStringError("its backward pass calls " + recorded.irName +
                                     " with a complex number, which the IR has no constants of");
    auto operand = makeOperand(call, i);
    if (!operand)
      return llvm::createStringError("no expression of the dynamic dimensions fits argument " +
                                     std::to_string(i + 1) + " of " + recorded.irName +
                                     " in its backward pass; leave them out of --dynamic");
    made.operands.push_back(std::move(*operand));
  }
  for (const RecordedValue &result : recorded.results)
    made.listLengths.push_back(result.kind == RecordedValue::Kind::Tensors
                                   ? std::optional<unsigned>(result.tensors.size())
                                   : std::nullopt);
  return made;
}

void RuleMaker::define(size_t recorded, unsigned call) {
  unsigned index = 0;
  for (const RecordedValue &result : reference.calls[recorded].results)
    for (TensorId number : result.tensors) {
      if (number >= 0)
        tensors.try_emplace(number, RuleTensor{Source::Call, index, call});
      ++index;
    }
}

std::vector<TensorId> RuleMaker::usedByBackward() const {
  std::vector<TensorId> used(reference.gradInputs);
  for (const RecordedCall &call : llvm::drop_begin(reference.calls, reference.numForwardCalls))
    for (const RecordedValue &operand : call.operands)
      llvm::append_range(used, operand.tensors);
  return used;
}

bool RuleMaker::staysWithViews(std::vector<size_t> &views) const {
  std::map<TensorId, size_t> madeBy;
  for (size_t i = 0; i < reference.numForwardCalls; ++i)
    for (const RecordedValue &result : reference.calls[i].results)
      for (TensorId number : result.tensors)
        madeBy.try_emplace(number, i);
  std::set<size_t> needed;
  std::vector<TensorId> left = usedByBackward();
  while (!left.empty()) {
    const TensorId number = left.back();
    left.pop_back();
    auto made = madeBy.find(number);
    if (number < 0 || tensors.count(number) || made == madeBy.end() || needed.count(made->second))
      continue;
    const RecordedCall &call = reference.calls[made->second];
    if (!semanticsOf(call.irName).isView)
      return false;
    needed.insert(made->second);
    for (const RecordedValue &operand : call.operands)
      llvm::append_range(left, operand.tensors);
  }
  views.assign(needed.begin(), needed.end());
  return true;
}

llvm::Expected<BackwardRule> RuleMaker::make() {
  for (auto [i, number] : llvm::enumerate(reference.operands))
    tensors.try_emplace(number, RuleTensor{Source::Operand, unsigned(i)});
  for (auto [i, number] : llvm::enumerate(reference.gradOutputs))
    if (number >= 0)
      tensors.try_emplace(number, RuleTensor{Source::Gradient, unsigned(i)});
  const auto withoutResults = tensors;
  for (auto [i, number] : llvm::enumerate(reference.results))
    if (number >= 0)
      tensors.try_emplace(number, RuleTensor{Source::Result, unsigned(i)});
  std::vector<size_t> calls;
  const bool stays = staysWithViews(calls);
  BackwardRule rule;
  if (!stays) {
    tensors = withoutResults;
    calls.clear();
    llvm::append_range(calls, llvm::seq<size_t>(0, reference.numForwardCalls));
    rule.numForwardCalls = reference.numForwardCalls;
  }
  llvm::append_range(calls, llvm::seq(reference.numForwardCalls, reference.calls.size()));
  for (size_t call : calls) {
    auto made = makeCall(call);
    if (!made)
      return made.takeError();
    define(call, rule.calls.size());
    rule.calls.push_back(std::move(*made));
  }
  if (!stays)
    for (TensorId number : reference.results)
      rule.results.push_back(tensorOf(number));
  for (TensorId number : reference.gradInputs)
    rule.gradInputs.push_back(tensorOf(number));
  return rule;
}

//===- Recording at all samples -------------------------------------------===//

/// Operands of the operation in one run; nothing if one is unknown.
static std::optional<torch::jit::Stack> stackOf(Operation *op, const MetaInterpreter &run) {
  torch::jit::Stack stack;
  for (Value operand : op->getOperands()) {
    auto known = run.values.find(operand);
    if (known == run.values.end())
      return std::nullopt;
    stack.push_back(known->second);
  }
  return stack;
}

/// The tensors among the values, those of lists included.
static std::vector<at::Tensor> tensorsIn(const torch::jit::Stack &stack) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : stack) {
    if (value.isTensor() && value.toTensor().defined())
      tensors.push_back(value.toTensor());
    else if (value.isTensorList() || value.isOptionalTensorList())
      for (const c10::IValue &item : value.toListRef())
        if (item.isTensor() && item.toTensor().defined())
          tensors.push_back(item.toTensor());
  }
  return tensors;
}

static void describe(const at::Tensor &tensor, llvm::raw_ostream &out) {
  if (!tensor.defined()) {
    out << "u;";
    return;
  }
  out << int(tensor.scalar_type()) << (tensor.unsafeGetTensorImpl()->is_wrapped_number() ? "w" : "t");
  for (int64_t size : tensor.sizes())
    out << size << ',';
  out << '/';
  for (int64_t stride : tensor.strides())
    out << stride << ',';
  out << ';';
}

/// Everything that a recording depends on; false for a value that cannot be part of a key.
static bool describe(const c10::IValue &value, llvm::raw_ostream &out) {
  if (value.isTensor()) {
    describe(value.toTensor(), out);
  } else if (value.isList() || value.isTuple()) {
    out << '[';
    for (const c10::IValue &item : value.isList() ? value.toListRef() : value.toTupleRef().elements())
      if (!describe(item, out))
        return false;
    out << ']';
  } else if (value.isDouble()) {
    out << llvm::bit_cast<int64_t>(value.toDouble()) << 'd';
  } else if (value.isInt()) {
    out << value.toInt() << 'i';
  } else if (value.isBool()) {
    out << value.toBool() << 'b';
  } else if (value.isString()) {
    out << value.toStringRef().size() << 's' << value.toStringRef();
  } else if (value.isNone()) {
    out << 'n';
  } else if (value.isDevice()) {
    out << value.toDevice().str() << ';';
  } else {
    return false;
  }
  return true;
}

char MissingDerivative::ID = 0;

/// libtorch tells of missing derivatives in words alone: "derivative for aten::x is not implemented", "the
/// derivative for 'x' is not implemented".
static llvm::Error errorOf(StringRef message) {
  const StringRef line = message.split('\n').first;
  const bool isMissing = line.contains("has no derivative") ||
                         (line.contains("derivative for") && line.contains("not implemented"));
  if (isMissing)
    return llvm::make_error<MissingDerivative>(line, llvm::inconvertibleErrorCode());
  return llvm::createStringError(line);
}

llvm::Expected<const BackwardRule &> BackwardRules::find(OperatorOp op, ArrayRef<Value> gradients,
                                                         const std::vector<bool> &needsInputGrad) {
  std::string text;
  llvm::raw_string_ostream key(text);
  key << op.getName() << ' ';
  for (bool wanted : needsInputGrad)
    key << wanted;
  bool hasKey = true;
  for (const MetaInterpreter &run : samples.runs) {
    auto stack = stackOf(op, run);
    for (const c10::IValue &operand : stack ? *stack : torch::jit::Stack())
      hasKey = hasKey && describe(operand, key);
    for (Value gradient : gradients) {
      auto value = gradient ? run.values.find(gradient) : run.values.end();
      if (value != run.values.end())
        hasKey = hasKey && describe(value->second, key);
      else
        key << (gradient ? 'x' : '-');
    }
    key << '\n';
  }
  auto rule = hasKey ? known.find(text) : known.end();
  if (rule != known.end())
    return rule->second;
  auto made = make(op, gradients, needsInputGrad);
  if (!made)
    return made.takeError();
  if (!hasKey)
    text += " " + std::to_string(known.size());
  return known.insert_or_assign(text, std::move(*made)).first->second;
}

llvm::Expected<BackwardRule> BackwardRules::make(OperatorOp op, ArrayRef<Value> gradients,
                                                 const std::vector<bool> &needsInputGrad) {
  auto callee = findOperator(op.getName());
  if (!callee)
    return llvm::createStringError("libtorch does not know the operator");
  std::vector<std::optional<Recording>> recordings(samples.runs.size());
  std::vector<Shapes> shapes(needsInputGrad.size(), Shapes(samples.runs.size()));
  std::vector<double> floats;
  for (auto [i, run] : llvm::enumerate(samples.runs)) {
    const bool mayFail = samples.mayFail(i);
    auto stack = stackOf(op, run);
    std::vector<at::Tensor> given;
    for (Value gradient : gradients) {
      auto value = gradient ? run.values.find(gradient) : run.values.end();
      if (gradient && value == run.values.end())
        stack.reset();
      given.push_back(value != run.values.end() ? value->second.toTensor() : at::Tensor());
    }
    if (!stack) {
      if (!mayFail)
        return llvm::createStringError("its operands have shapes that depend on data");
      continue;
    }
    const std::vector<at::Tensor> tensors = tensorsIn(*stack);
    if (tensors.size() != needsInputGrad.size()) {
      if (!mayFail)
        return llvm::createStringError("the number of its operands depends on sizes");
      continue;
    }
    for (auto [index, tensor] : llvm::enumerate(tensors))
      shapes[index][i] = tensor.sizes().vec();
    if (i == 0)
      for (const c10::IValue &operand : *stack)
        if (operand.isDouble())
          floats.push_back(operand.toDouble());
    try {
      recordings[i] = recordBackward(*callee, *stack, given, needsInputGrad);
    } catch (const c10::Error &error) {
      if (!mayFail)
        return errorOf(error.what_without_backtrace());
    } catch (const std::exception &error) {
      if (!mayFail)
        return errorOf(error.what());
    }
  }
  std::vector<const Recording *> alike;
  for (auto [i, recording] : llvm::enumerate(recordings)) {
    const bool isSame = recording && isAlike(*recording, *recordings[0]) &&
                        (!samples.mayFail(i) || hasSameDimensions(*recording, *recordings[0]));
    if (recording && !isSame && !samples.mayFail(i))
      return llvm::createStringError(
          "its backward pass calls other operators at other sizes; trace with sizes of 2 and more, or "
          "leave the dimensions out of --dynamic");
    alike.push_back(isSame ? &*recording : nullptr);
  }
  return RuleMaker(alike, *recordings[0], samples.fitter, shapes, floats).make();
}

} // namespace cleave
