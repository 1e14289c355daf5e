//===- Differentiate.cpp - Gradients as IR --------------------------------===//
#include "ir/autograd/Differentiate.h"
#include "ir/Signature.h"
#include "ir/autograd/StepBuilder.h"
#include "ir/inference/InferTypes.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {

std::string gradientName(StringRef of) { return ("grad." + of).str(); }

void removeGradientStops(func::FuncOp function) {
  function.walk([](OperatorOp op) {
    if (!semanticsOf(op.getName()).stopsGradients)
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

namespace {
/// A tensor: a value, or item `item` of a value that is a list or tuple.
struct Slot {
  Value value;
  std::optional<unsigned> item;
};

/// One run over a function. Gradients are found from the last operation to the first.
class Differentiator {
public:
  Differentiator(func::FuncOp function, const DerivativeOptions &options, Samples &samples)
      : function(function), options(options), samples(samples), rules(samples),
        steps(samples, function.getContext()) {}

  LogicalResult run();

private:
  const c10::IValue *exampleOf(Value value) const {
    auto known = samples.runs.front().values.find(value);
    return known == samples.runs.front().values.end() ? nullptr : &known->second;
  }
  bool isFloat(Slot slot) const;
  bool isTrained(ParamOp param) const;
  /// Empty if it has no name.
  StringRef nameOf(BlockArgument argument) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    return name ? name.getValue() : StringRef();
  }
  bool isLoss(StringAttr name, unsigned results) const;
  LogicalResult refuseUnknown();
  FailureOr<Value> findLoss();
  /// Finds the values that depend on what gradients are wanted of.
  void findActive();
  /// The tensors that a value holds: itself, or the items of a list; nothing if it holds others.
  std::optional<SmallVector<Slot>> slotsOf(Value value) const;
  std::optional<SmallVector<Slot>> slotsOf(ValueRange values) const;
  Value read(Slot slot);
  Value gradientOf(Slot slot) const;
  void add(Slot slot, Value gradient);
  bool hasGradient(Operation *op) const;
  LogicalResult visit(Operation *op);
  LogicalResult visitCall(OperatorOp op);
  /// Builds the forward steps of a rule in the place of the operation, which is erased.
  void replace(OperatorOp op, const BackwardRule &rule, llvm::function_ref<Value(RuleTensor)> valueOf,
               std::vector<SmallVector<Value>> &made);
  void addResults();

  func::FuncOp function;
  const DerivativeOptions &options;
  Samples &samples;
  BackwardRules rules;
  StepBuilder steps;
  DenseSet<Value> active;
  DenseMap<Value, Value> gradients;
  /// Of the items of lists and tuples; null where there is none.
  DenseMap<Value, SmallVector<Value>> itemGradients;
};
} // namespace

//===- Values -------------------------------------------------------------===//

static bool isAggregate(const c10::IValue &value) { return value.isList() || value.isTuple(); }

static c10::ArrayRef<c10::IValue> itemsOf(const c10::IValue &aggregate) {
  return aggregate.isTuple() ? c10::ArrayRef<c10::IValue>(aggregate.toTupleRef().elements())
                             : aggregate.toListRef();
}

bool Differentiator::isFloat(Slot slot) const {
  const c10::IValue *value = exampleOf(slot.value);
  if (!value)
    return false;
  const c10::IValue &tensor = slot.item ? itemsOf(*value)[*slot.item] : *value;
  return tensor.isTensor() && tensor.toTensor().defined() &&
         (tensor.toTensor().is_floating_point() || tensor.toTensor().is_complex());
}

std::optional<SmallVector<Slot>> Differentiator::slotsOf(Value value) const {
  const c10::IValue *known = exampleOf(value);
  SmallVector<Slot> slots;
  if (!known)
    return std::nullopt;
  if (known->isTensor()) {
    if (known->toTensor().defined())
      slots.push_back({value, std::nullopt});
  } else if (known->isTensorList() || known->isOptionalTensorList()) {
    auto list = value.getDefiningOp<ListOp>();
    for (auto [i, item] : llvm::enumerate(itemsOf(*known)))
      if (item.isTensor())
        slots.push_back(list ? Slot{list.getElements()[i], std::nullopt} : Slot{value, unsigned(i)});
  } else if (isAggregate(*known) && llvm::any_of(itemsOf(*known), [](const c10::IValue &item) {
               return item.isTensor() || isAggregate(item);
             })) {
    return std::nullopt;
  }
  return slots;
}

std::optional<SmallVector<Slot>> Differentiator::slotsOf(ValueRange values) const {
  SmallVector<Slot> all;
  for (Value value : values) {
    auto slots = slotsOf(value);
    if (!slots)
      return std::nullopt;
    llvm::append_range(all, *slots);
  }
  return all;
}

Value Differentiator::read(Slot slot) {
  if (!slot.item)
    return slot.value;
  return steps.unpack(slot.value, itemsOf(*exampleOf(slot.value)).size())[*slot.item];
}

Value Differentiator::gradientOf(Slot slot) const {
  if (!slot.item)
    return gradients.lookup(slot.value);
  auto items = itemGradients.find(slot.value);
  return items == itemGradients.end() ? Value() : items->second[*slot.item];
}

void Differentiator::add(Slot slot, Value gradient) {
  Value *sum = &gradients[slot.value];
  if (slot.item) {
    SmallVector<Value> &items = itemGradients[slot.value];
    items.resize(itemsOf(*exampleOf(slot.value)).size());
    sum = &items[*slot.item];
  }
  // Operations that are built do not change the maps.
  *sum = *sum ? steps.sum(*sum, gradient) : gradient;
}

//===- What gradients are wanted of ---------------------------------------===//

bool Differentiator::isTrained(ParamOp param) const {
  return param.getRole() == "parameter" && isFloat({param, std::nullopt}) &&
         options.isTrained(param.getName());
}

/// Operands, and values that regions use from outside.
static bool usesAny(Operation *op, const DenseSet<Value> &values) {
  auto isOne = [&](Value value) { return values.contains(value); };
  return llvm::any_of(op->getOperands(), isOne) || op->walk([&](Operation *inner) {
                                                       return llvm::any_of(inner->getOperands(), isOne)
                                                                  ? WalkResult::interrupt()
                                                                  : WalkResult::advance();
                                                     }).wasInterrupted();
}

void Differentiator::findActive() {
  for (BlockArgument argument : function.getArguments())
    if (isFloat({argument, std::nullopt}) && options.ofArgument(nameOf(argument)))
      active.insert(argument);
  // A weight within a region makes the operation with that region active.
  function.walk([&](ParamOp param) {
    if (isTrained(param))
      active.insert(param);
  });
  for (Operation &op : function.getBody().front()) {
    auto call = dyn_cast<OperatorOp>(op);
    if (!usesAny(&op, active) || (call && semanticsOf(call.getName()).stopsGradients))
      continue;
    for (Value result : op.getResults()) {
      const c10::IValue *value = exampleOf(result);
      if (!value || isAggregate(*value) || isFloat({result, std::nullopt}))
        active.insert(result);
    }
  }
}

/// True for the name of the result that is to be the loss, of `results`.
bool Differentiator::isLoss(StringAttr name, unsigned results) const {
  if (!options.loss.empty())
    return name && name.getValue() == options.loss;
  return results == 1 || (name && (name.getValue() == "loss" || name.getValue().ends_with(".loss")));
}

/// Says why the loss is not known without data.
LogicalResult Differentiator::refuseUnknown() {
  WalkResult walk = function.walk([&](Operation *op) {
    auto failure = samples.runs.front().failures.find(op);
    if (failure == samples.runs.front().failures.end())
      return WalkResult::advance();
    op->emitError() << op->getName()
                    << " has no gradient: the loss depends on it, and its types depend on data ("
                    << failure->second.reason << ")";
    return WalkResult::interrupt();
  });
  return walk.wasInterrupted()
             ? failure()
             : LogicalResult(function.emitError() << "the loss has a type that depends on data");
}

FailureOr<Value> Differentiator::findLoss() {
  Operation *terminator = function.getBody().front().getTerminator();
  std::string names;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
    names += (i ? ", " : "") + (name ? name.str() : "result " + std::to_string(i));
    if (!isLoss(name, terminator->getNumOperands()))
      continue;
    Value loss = terminator->getOperand(i);
    const c10::IValue *value = exampleOf(loss);
    if (!value)
      return refuseUnknown();
    std::string found = "no tensor";
    if (value->isTensor()) {
      if (value->toTensor().numel() == 1 && isFloat({loss, std::nullopt}))
        return loss;
      llvm::raw_string_ostream(found = "") << loss.getType();
    }
    return function.emitError() << "the loss" << (name ? " '" + name.str() + "'" : std::string())
                                << ": found " << found << ", expected one floating-point number";
  }
  return function.emitError() << "the loss: found " << (names.empty() ? "no results" : names)
                              << ", expected a result '" << (options.loss.empty() ? "loss" : options.loss)
                              << "'; trace the model with labels, or attach a loss";
}

//===- Operations ---------------------------------------------------------===//

bool Differentiator::hasGradient(Operation *op) const {
  return llvm::any_of(op->getResults(),
                      [&](Value result) { return gradients.lookup(result) || itemGradients.count(result); });
}

LogicalResult Differentiator::visit(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  if (call && call.getSchema().writesAnyArgument() && usesAny(op, active) && op->getNumResults() == 0)
    return op->emitError() << op->getName() << " changes a value in place, which has no gradient";
  if (!hasGradient(op) || !usesAny(op, active))
    return success();
  if (isa<BoundaryOp>(op)) {
    add({op->getOperand(0), std::nullopt}, gradients.lookup(op->getResult(0)));
    return success();
  }
  if (isa<ListOp, TupleOp>(op)) {
    for (auto [item, gradient] : llvm::zip(op->getOperands(), itemGradients.lookup(op->getResult(0))))
      if (gradient)
        add({item, std::nullopt}, gradient);
    return success();
  }
  std::optional<unsigned> accessed = call && isItemAccess(op) ? constantItem(call) : std::nullopt;
  if (isa<UnpackOp>(op) || accessed) {
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (Value gradient = gradients.lookup(result))
        add({op->getOperand(0), accessed.value_or(i)}, gradient);
      else if (itemGradients.count(result))
        return op->emitError() << "gradients of lists in lists are not supported";
    return success();
  }
  if (call)
    return visitCall(call);
  return op->emitError() << op->getName() << " has no gradient: gradients through control flow are not "
                         << "supported; trace the model with inputs that fix the branch";
}

LogicalResult Differentiator::visitCall(OperatorOp op) {
  steps.setLocation(op->getLoc());
  auto operands = slotsOf(op->getOperands()), results = slotsOf(op->getResults());
  if (!operands || !results)
    return op->emitError() << op->getName() << " has no gradient: its operands depend on data";
  SmallVector<Value> given = llvm::map_to_vector(*results, [&](Slot slot) { return gradientOf(slot); });
  std::vector<bool> isWanted;
  for (Slot slot : *operands)
    isWanted.push_back(isFloat(slot) && active.contains(slot.value));
  if (!llvm::is_contained(isWanted, true))
    return success();
  auto rule = rules.find(op, given, isWanted);
  if (!rule)
    return op->emitError() << op->getName() << " has no gradient: " << llvm::toString(rule.takeError());

  auto valueOf = [&](RuleTensor of) -> Value {
    switch (of.source) {
    case RuleTensor::Source::Operand:
      return read((*operands)[of.index]);
    case RuleTensor::Source::Result:
      return read((*results)[of.index]);
    case RuleTensor::Source::Gradient:
      return given[of.index];
    default:
      return {};
    }
  };
  std::vector<SmallVector<Value>> made;
  if (rule->forward)
    replace(op, *rule, valueOf, made);
  steps.build(*rule, rule->forward, rule->steps.size(), valueOf, made);
  for (auto [slot, gradient] : llvm::zip(*operands, rule->operandGradients)) {
    Value value =
        gradient.source == RuleTensor::Source::Step ? made[gradient.step][gradient.index] : valueOf(gradient);
    if (value)
      add(slot, value);
  }
  return success();
}

void Differentiator::replace(OperatorOp op, const BackwardRule &rule,
                             llvm::function_ref<Value(RuleTensor)> valueOf,
                             std::vector<SmallVector<Value>> &made) {
  OpBuilder::InsertionGuard guard(steps.builder());
  steps.builder().setInsertionPoint(op);
  steps.build(rule, 0, rule.forward, valueOf, made);
  auto replacementOf = [&](RuleTensor of) {
    return of.source == RuleTensor::Source::Step ? made[of.step][of.index] : valueOf(of);
  };
  size_t next = 0;
  for (Value result : op->getResults()) {
    const auto slots = slotsOf(result);
    SmallVector<Value> values;
    for (size_t i = 0; i < slots->size(); ++i)
      values.push_back(replacementOf(rule.results[next++]));
    if (exampleOf(result)->isTensor()) {
      if (!values.empty() && values[0])
        result.replaceAllUsesWith(values[0]);
    } else if (isa<ListType>(result.getType())) {
      result.replaceAllUsesWith(steps.list(cast<ListType>(result.getType()).getElement(), values));
    }
  }
  for (Value result : op->getResults()) {
    gradients.erase(result);
    itemGradients.erase(result);
    active.erase(result);
  }
  for (MetaInterpreter &run : samples.runs)
    run.forget(op);
  op->erase();
}

//===- The function -------------------------------------------------------===//

void Differentiator::addResults() {
  llvm::MapVector<StringRef, Value> found;
  auto addTo = [&](StringRef name, Value of) {
    Value gradient = active.contains(of) ? gradients.lookup(of) : Value();
    Value &sum = found[name];
    if (gradient)
      sum = sum ? steps.sum(sum, gradient) : gradient;
  };
  for (ParamOp param : function.getOps<ParamOp>())
    addTo(param.getName(), param);
  for (BlockArgument argument : function.getArguments())
    addTo(nameOf(argument), argument);
  Builder builder(function);
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Attribute> tree;
  for (auto &[name, gradient] : found) {
    if (!gradient)
      continue;
    const unsigned index = terminator->getNumOperands();
    terminator->insertOperands(index, gradient);
    function.insertResult(index, gradient.getType(),
                          builder.getDictionaryAttr(
                              builder.getNamedAttr(kNameAttr, builder.getStringAttr(gradientName(name)))));
    tree.push_back(builder.getStringAttr(name));
    tree.push_back(leafTree(builder, index));
  }
  if (Attribute outputs = function->getAttr(kOutputTreeAttr))
    function->setAttr(kOutputTreeAttr,
                      nodeTree(builder, "dict",
                               {builder.getStringAttr("outputs"), outputs, builder.getStringAttr("gradients"),
                                nodeTree(builder, "dict", tree)}));
}

LogicalResult Differentiator::run() {
  auto loss = findLoss();
  if (failed(loss))
    return failure();
  findActive();
  if (!active.contains(*loss))
    return function.emitError() << "the loss depends on no weight that is trained";
  Block &block = function.getBody().front();
  SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  steps.builder().setInsertionPoint(block.getTerminator());
  steps.setLocation(loss->getLoc());
  Value none = steps.constant(steps.builder().getNoneType(), steps.builder().getUnitAttr());
  gradients[*loss] = steps.call("aten.ones_like", {*loss, none, none, none, none, none});
  for (Operation *op : llvm::reverse(forward))
    if (failed(visit(op)))
      return failure();
  addResults();
  return success();
}

LogicalResult differentiate(func::FuncOp function, const DerivativeOptions &options) {
  registerMetaKernels();
  WithoutData withoutData;
  InferredValues inferred;
  inferred.limits = limitsOf(function);
  auto samples = sample(function, inferred.limits, /*onlyTraced=*/false);
  if (failed(samples))
    return failure();
  generalize(function, **samples, inferred);
  if (failed(Differentiator(function, options, **samples).run()))
    return failure();
  removeGradientStops(function);
  generalize(function, **samples, inferred);
  setInferredTypes(function, inferred);
  return success();
}

} // namespace cleave
