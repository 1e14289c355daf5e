//===- MetaInterpreter.cpp - One run of a function without data -----------===//
#include "ir/inference/MetaInterpreter.h"
#include "ir/Aggregates.h"
#include "ir/SymbolicDim.h"
#include "ir/semantics/OpSemantics.h"
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

using namespace mlir;

namespace cleave {

/// Limit of the iterations of a loop that is followed; values of longer loops are unknown.
static constexpr int64_t kMaxIterations = 1000;
/// Limit of the elements of a one-dimensional integer tensor whose values are followed.
static constexpr int64_t kMaxKnownElements = 16;

static std::optional<std::vector<int64_t>> evaluate(ArrayRef<std::string> texts,
                                                    const llvm::StringMap<int64_t> &sizes) {
  std::vector<int64_t> result;
  for (const std::string &text : texts) {
    auto size = SymbolicDim::parse(text)->evaluate(sizes);
    if (!size)
      return std::nullopt;
    result.push_back(*size);
  }
  return result;
}

c10::IValue MetaInterpreter::emptyTensor(RankedTensorType type) const {
  auto dtype = scalarTypeOf(type.getElementType());
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  std::optional<std::vector<int64_t>> shape = type.getShape().vec();
  if (!type.hasStaticShape())
    shape = layout && !layout.getDims().empty() ? evaluate(layout.getDims(), sizes) : std::nullopt;
  if (!dtype || !shape)
    return {};
  auto options = at::TensorOptions().device(at::kMeta).dtype(*dtype);
  if (!layout || layout.getStrides().empty())
    return at::empty(*shape, options);
  auto strides = evaluate(layout.getStrides(), sizes);
  return strides ? c10::IValue(at::empty_strided(*shape, *strides, options)) : c10::IValue();
}

void MetaInterpreter::run(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
      if (c10::IValue tensor = emptyTensor(type); tensor.isTensor())
        values[argument] = tensor;
  runBlock(function.getBody().front());
}

void MetaInterpreter::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    run(&op);
}

std::optional<std::vector<c10::IValue>> MetaInterpreter::operandsOf(Operation *op) const {
  std::vector<c10::IValue> operands;
  for (Value operand : op->getOperands()) {
    auto known = values.find(operand);
    if (known == values.end())
      return std::nullopt;
    operands.push_back(known->second);
  }
  return operands;
}

/// True if two tensors have the same dtype, shape and strides.
static bool isSameTensor(const c10::IValue &a, const c10::IValue &b) {
  if (!a.isTensor() || !b.isTensor())
    return false;
  // Known numbers must be equal.
  if (a.toTensor().is_cpu() || b.toTensor().is_cpu())
    return a.toTensor().is_cpu() && b.toTensor().is_cpu() &&
           a.toTensor().scalar_type() == b.toTensor().scalar_type() && at::equal(a.toTensor(), b.toTensor());
  return a.toTensor().scalar_type() == b.toTensor().scalar_type() &&
         a.toTensor().sizes() == b.toTensor().sizes() && a.toTensor().strides() == b.toTensor().strides();
}

static bool isSame(const c10::IValue &a, const c10::IValue &b) {
  if (a.isTensor() || b.isTensor())
    return isSameTensor(a, b);
  return a.tagKind() == b.tagKind() && (a.isNone() || a.isInt() || a.isBool() || a.isDouble()) && a == b;
}

/// Few integers with known values, of which sizes may be made.
static bool isSmallAndKnown(const at::Tensor &tensor) {
  return tensor.is_cpu() && (tensor.dim() == 0 || (tensor.dim() == 1 && tensor.numel() <= kMaxKnownElements &&
                                                   c10::isIntegralType(tensor.scalar_type(), true)));
}

void MetaInterpreter::set(Value value, c10::IValue now) {
  if (now.isTensor() && now.toTensor().defined() && now.toTensor().is_cpu() &&
      !isSmallAndKnown(now.toTensor()))
    now = withoutData(now.toTensor());
  values[value] = std::move(now);
}

void MetaInterpreter::bindResults(ValueRange results, ValueRange from) {
  for (auto [result, value] : llvm::zip(results, from)) {
    auto known = values.find(value);
    if (known == values.end())
      values.erase(result);
    else
      values[result] = c10::IValue(known->second);
  }
}

void MetaInterpreter::forget(Operation *op) {
  failures.erase(op);
  for (Value result : op->getResults())
    values.erase(result);
}

void MetaInterpreter::run(Operation *op) {
  if (auto call = dyn_cast<OperatorOp>(op))
    return runOperator(call);
  if (isa<IfOp>(op))
    return runIf(op);
  if (isa<LoopOp>(op))
    return runLoop(op);
  if (isa<ObserveOp>(op))
    return;
  if (isa<BoundaryOp, FirstRankOp, ReshardOp>(op))
    return bindResults(op->getResults(), op->getOperands());
  if (auto vjp = dyn_cast<VjpOp>(op))
    return runVjp(vjp);
  if (auto stage = dyn_cast<StageOp>(op)) {
    bindResults(stage.getBody().getArguments(), stage.getInputs());
    runBlock(stage.getBody().front());
    return bindResults(stage.getResults(), stage.getBody().front().getTerminator()->getOperands());
  }
  if (isa<ParamOp, ConstantOp, PerRankOp, SizeOp, ReadStateOp, ReadSumOp>(op))
    return runLeaf(op);
  if (auto operands = operandsOf(op))
    construct(op, std::move(*operands));
}

void MetaInterpreter::runLeaf(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(param.getType());
    if (param.getIntegers() && type)
      values[param] =
          at::tensor(at::IntArrayRef(param.getIntegers()->data(), param.getIntegers()->size()), at::kLong)
              .reshape(at::IntArrayRef(type.getShape().data(), type.getRank()));
    else if (type)
      set(param, emptyTensor(type));
    if (auto known = values.find(param); param.getWrapped() && known != values.end())
      known->second.toTensor().unsafeGetTensorImpl()->set_wrapped_number(true);
  } else if (auto sum = dyn_cast<ReadSumOp>(op)) {
    set(sum, emptyTensor(cast<RankedTensorType>(sum.getType())));
  } else if (auto state = dyn_cast<ReadStateOp>(op)) {
    // The value of a state depends on earlier requests.
    if (auto type = dyn_cast<RankedTensorType>(state.getType()))
      set(state, emptyTensor(type));
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    set(constant, isa<DeviceType>(constant.getType()) ? c10::IValue(at::Device(at::kMeta))
                                                      : toIValue(constant.getValue(), constant.getType()));
  } else if (auto perRank = dyn_cast<PerRankOp>(op)) {
    // The first rank's value; types are those of the first rank, too.
    set(perRank, toIValue(perRank.getValues()[0], perRank.getType()));
  } else if (auto value = SymbolicDim::parse(cast<SizeOp>(op).getExpression())->evaluate(sizes)) {
    set(op->getResult(0), *value);
  }
}

void MetaInterpreter::construct(Operation *op, std::vector<c10::IValue> operands) {
  if (auto list = dyn_cast<ListOp>(op)) {
    c10::impl::GenericList items(torchTypeOf(cast<ListType>(list.getType()).getElement()));
    for (c10::IValue &operand : operands)
      items.push_back(std::move(operand));
    set(list, std::move(items));
  } else if (auto dict = dyn_cast<DictOp>(op)) {
    auto type = cast<DictType>(dict.getType());
    c10::impl::GenericDict entries(torchTypeOf(type.getKey()), torchTypeOf(type.getValue()));
    for (size_t i = 0; i + 1 < operands.size(); i += 2)
      entries.insert(operands[i], operands[i + 1]);
    set(dict, std::move(entries));
  } else if (isa<TupleOp>(op)) {
    set(op->getResult(0), c10::ivalue::Tuple::create(std::move(operands)));
  } else if (isa<UnpackOp>(op) && (operands[0].isTuple() || operands[0].isList())) {
    auto items = operands[0].isTuple() ? c10::ArrayRef<c10::IValue>(operands[0].toTupleRef().elements())
                                       : operands[0].toListRef();
    if (items.size() == op->getNumResults())
      for (auto [result, item] : llvm::zip(op->getResults(), items))
        set(result, item);
  }
}

/// Devices become the meta device, but known integers that are moved "to the CPU" stay known.
static void keepOnCpu(torch::jit::Stack &stack) {
  auto isKnownTensor = [](const c10::IValue &value) { return value.isTensor() && value.toTensor().is_cpu(); };
  if (!llvm::any_of(stack, isKnownTensor) || llvm::any_of(stack, [&](const c10::IValue &value) {
        return value.isTensor() && !isKnownTensor(value);
      }))
    return;
  for (c10::IValue &value : stack)
    if (value.isDevice())
      value = at::Device(at::kCPU);
}

void MetaInterpreter::raise(OperatorOp op) {
  if (dataDependentDepth)
    return;
  auto operands = operandsOf(op);
  std::string text = "the model raises";
  if (operands && operands->front().isString())
    text += " \"" + operands->front().toStringRef() + "\"";
  failures[op] = {std::move(text), /*isRefusal=*/true, /*isRaised=*/true};
}

/// Appends numbers after their count, so that different lists give different keys.
static void appendAll(ArrayRef<int64_t> numbers, std::vector<int64_t> &key) {
  key.push_back(numbers.size());
  key.insert(key.end(), numbers.begin(), numbers.end());
}

static void describe(const at::Tensor &tensor, std::vector<int64_t> &key) {
  key.insert(key.end(),
             {int64_t(tensor.scalar_type()), int64_t(tensor.key_set().raw_repr()), tensor.storage_offset(),
              int64_t(tensor.storage().nbytes()), tensor.unsafeGetTensorImpl()->is_wrapped_number()});
  appendAll(ArrayRef(tensor.sizes().data(), tensor.dim()), key);
  appendAll(ArrayRef(tensor.strides().data(), tensor.dim()), key);
}

static bool isWithoutData(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_meta();
}

/// Appends everything that types may depend on; false if that may be data.
static bool describe(const c10::IValue &value, std::vector<int64_t> &key) {
  key.push_back(int64_t(value.isTensor()) | int64_t(value.isInt()) << 1 | int64_t(value.isDouble()) << 2 |
                int64_t(value.isBool()) << 3 | int64_t(value.isIntList()) << 4 |
                int64_t(value.isTensorList()) << 5);
  if (value.isTensor() && value.toTensor().defined()) {
    describe(value.toTensor(), key);
    return value.toTensor().is_meta();
  }
  if (value.isInt())
    key.push_back(value.toInt());
  else if (value.isDouble())
    key.push_back(llvm::bit_cast<int64_t>(value.toDouble()));
  else if (value.isBool())
    key.push_back(value.toBool());
  else if (value.isIntList())
    appendAll(value.toIntVector(), key);
  else if (!value.isTensorList())
    return value.isNone();
  if (!value.isTensorList())
    return true;
  const std::vector<at::Tensor> tensors = value.toTensorVector();
  key.push_back(tensors.size());
  for (const at::Tensor &tensor : tensors) {
    if (!tensor.defined() || !tensor.is_meta())
      return false;
    describe(tensor, key);
  }
  return true;
}

std::optional<MetaInterpreter::CallKey> MetaInterpreter::keyOf(OperatorOp op,
                                                               const torch::jit::Stack &operands) const {
  if (tracksStorages || !isMemoryEffectFree(op))
    return std::nullopt;
  CallKey key{reinterpret_cast<intptr_t>(op->getName().getAsOpaquePointer())};
  for (const c10::IValue &operand : operands)
    if (!describe(operand, key))
      return std::nullopt;
  return key;
}

void MetaInterpreter::runOperator(OperatorOp op) {
  if (semanticsOf(op.getName()).raises)
    return raise(op);
  auto operands = operandsOf(op);
  auto callee = findOperator(op.getName());
  for (Value result : op->getResults())
    values.erase(result);
  if (!operands || !callee)
    return markUnknown(op);
  torch::jit::Stack stack(std::move(*operands));
  keepOnCpu(stack);
  if (op.getSchema().isVariadic)
    stack.emplace_back(int64_t(op->getNumOperands()));
  std::optional<CallKey> key = keyOf(op, stack);
  auto same = key ? known.find(*key) : known.end();
  if (same != known.end()) {
    stack = same->second;
  } else if (auto failure = callWithoutData(op.getSchema(), *callee, stack)) {
    failures[op] = std::move(*failure);
    return markUnknown(op);
  } else if (key && llvm::all_of(stack, isWithoutData)) {
    known.emplace(std::move(*key), stack);
  }
  bool hasData = !op.getSchema().isRandom && !semanticsOf(op.getName()).isUninitialized;
  for (auto [result, value] : llvm::zip(op->getResults(), stack))
    if (hasData || !value.isTensor() || !value.toTensor().defined())
      set(result, value);
    else
      set(result, withoutData(value.toTensor()));
}

void MetaInterpreter::markUnknown(Operation *op) {
  for (Region &region : op->getRegions()) {
    for (BlockArgument argument : region.getArguments())
      values.erase(argument);
    region.walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        values.erase(result);
    });
  }
  if (isMemoryEffectFree(op))
    return;
  SmallVector<Value> changing;
  for (auto &entry : values)
    if (mayChange(entry.first))
      changing.push_back(entry.first);
  for (Value value : changing)
    values.erase(value);
}

/// True if the block never reaches its end.
static bool raisesAlways(Block &block) {
  return llvm::any_of(block, [](Operation &op) {
    auto call = dyn_cast<OperatorOp>(op);
    auto branch = dyn_cast<IfOp>(op);
    return (call && semanticsOf(call.getName()).raises) ||
           (branch && raisesAlways(branch.getThenRegion().front()) &&
            raisesAlways(branch.getElseRegion().front()));
  });
}

void MetaInterpreter::runIf(Operation *op) {
  auto branch = cast<IfOp>(op);
  auto condition = values.find(branch.getCondition());
  Block &thenBlock = branch.getThenRegion().front(), &elseBlock = branch.getElseRegion().front();
  if (condition != values.end() && condition->second.isBool()) {
    Block &taken = condition->second.toBool() ? thenBlock : elseBlock;
    runBlock(taken);
    return bindResults(op->getResults(), taken.getTerminator()->getOperands());
  }
  // Either branch may run, so lists that one of them changes are unknown afterwards.
  if (!isMemoryEffectFree(op))
    markUnknown(op);
  ++dataDependentDepth;
  runBlock(thenBlock);
  runBlock(elseBlock);
  --dataDependentDepth;
  // If one branch raises, the results are those of the other.
  if (raisesAlways(thenBlock) || raisesAlways(elseBlock)) {
    Block &other = raisesAlways(thenBlock) ? elseBlock : thenBlock;
    return bindResults(op->getResults(), other.getTerminator()->getOperands());
  }
  for (auto [result, a, b] : llvm::zip(op->getResults(), thenBlock.getTerminator()->getOperands(),
                                       elseBlock.getTerminator()->getOperands())) {
    auto left = values.find(a), right = values.find(b);
    if (left != values.end() && right != values.end() && isSame(left->second, right->second))
      values[result] = c10::IValue(left->second);
    else
      values.erase(result);
  }
}

void MetaInterpreter::runVjp(VjpOp op) {
  Block &body = op.getBody().front();
  bindResults(body.getArguments(), op.getInputs());
  runBlock(body);
  const unsigned gradients = op.getNumResults() - op.getGradients().size();
  for (unsigned i = 0; i < gradients; ++i) {
    auto input = values.find(op.getInputs()[i]);
    values.erase(op.getResult(i));
    if (input != values.end() && input->second.isTensor())
      set(op.getResult(i), at::empty_like(withoutData(input->second.toTensor())));
  }
  for (auto [result, yielded] :
       llvm::zip(op.getResults().drop_front(gradients), body.getTerminator()->getOperands())) {
    auto known = values.find(yielded);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (known != values.end())
      set(result, c10::IValue(known->second));
    else if (type)
      set(result, emptyTensor(type));
    else
      values.erase(result);
  }
}

void MetaInterpreter::runLoop(Operation *op) {
  auto loop = cast<LoopOp>(op);
  Block &body = loop.getBody().front();
  auto trips = values.find(loop.getTrips()), start = values.find(loop.getCondition());
  if (trips == values.end() || start == values.end() || !trips->second.isInt() || !start->second.isBool())
    return markUnknown(op);
  int64_t limit = trips->second.toInt();
  std::optional<bool> goesOn = start->second.toBool();
  ValueRange carried = body.getArguments().drop_front();
  bindResults(carried, loop.getInits());
  llvm::DenseMap<Value, c10::IValue> before;
  llvm::DenseSet<Value> varying;
  int64_t i = 0;
  for (; goesOn.value_or(false) && i < limit && i < kMaxIterations; ++i) {
    values[body.getArgument(0)] = c10::IValue(i);
    goesOn = runIteration(body, before, varying);
  }
  if (!goesOn || (*goesOn && i < limit))
    return markUnknown(op);
  bindResults(loop.getResults(), carried);
  for (BlockArgument argument : body.getArguments())
    values.erase(argument);
  for (Value value : varying)
    values.erase(value);
}

std::optional<bool> MetaInterpreter::runIteration(Block &body, llvm::DenseMap<Value, c10::IValue> &before,
                                                  llvm::DenseSet<Value> &varying) {
  runBlock(body);
  // Values that differ between iterations have no single type.
  body.walk([&](Operation *inner) {
    for (Value result : inner->getResults()) {
      auto now = values.find(result);
      auto old = before.find(result);
      if (now != values.end() && old != before.end() && !isSame(now->second, old->second))
        varying.insert(result);
      if (now != values.end())
        before[result] = c10::IValue(now->second);
    }
  });
  OperandRange results = body.getTerminator()->getOperands();
  auto next = values.find(results[0]);
  if (next == values.end() || !next->second.isBool())
    return std::nullopt;
  bool goesOn = next->second.toBool();
  // All values are read before the first is written, since one may be carried to the place of another.
  SmallVector<std::optional<c10::IValue>> carried;
  for (Value value : results.drop_front()) {
    auto known = values.find(value);
    carried.push_back(known == values.end() ? std::nullopt : std::optional<c10::IValue>(known->second));
  }
  for (auto [argument, value] : llvm::zip(body.getArguments().drop_front(), carried))
    if (value)
      values[argument] = *value;
    else
      values.erase(argument);
  return goesOn;
}

} // namespace cleave
