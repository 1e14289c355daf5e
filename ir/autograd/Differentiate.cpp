//===- Differentiate.cpp - Gradients as IR --------------------------------===//
#include "ir/autograd/Differentiate.h"
#include "ir/autograd/DifferentiableForms.h"
#include "ir/autograd/Differentiator.h"
#include "ir/autograd/ForwardPart.h"
#include "ir/autograd/LossResult.h"
#include "ir/inference/InferTypes.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {

std::string gradientName(StringRef of) { return ("grad." + of).str(); }

//===- Values -------------------------------------------------------------===//

static bool isAggregate(const c10::IValue &value) { return value.isList() || value.isTuple(); }

bool Differentiator::isDifferentiable(TensorRef tensor) const {
  const c10::IValue *value = exampleOf(tensor.value);
  return value && cleave::isDifferentiable(tensor.item ? itemsOf(*value)[*tensor.item] : *value);
}

std::optional<SmallVector<TensorRef>> Differentiator::tensorsIn(Value value) const {
  const c10::IValue *known = exampleOf(value);
  SmallVector<TensorRef> tensors;
  if (!known)
    return std::nullopt;
  if (known->isTensor()) {
    if (known->toTensor().defined())
      tensors.push_back({value, std::nullopt});
  } else if (known->isTensorList() || known->isOptionalTensorList()) {
    auto list = value.getDefiningOp<ListOp>();
    for (auto [i, item] : llvm::enumerate(itemsOf(*known)))
      if (item.isTensor())
        tensors.push_back(list ? TensorRef{list.getElements()[i], std::nullopt}
                               : TensorRef{value, unsigned(i)});
  } else if (isAggregate(*known) && llvm::any_of(itemsOf(*known), [](const c10::IValue &item) {
               return item.isTensor() || isAggregate(item);
             })) {
    return std::nullopt;
  }
  return tensors;
}

std::optional<SmallVector<TensorRef>> Differentiator::tensorsIn(ValueRange values) const {
  SmallVector<TensorRef> all;
  for (Value value : values) {
    auto tensors = tensorsIn(value);
    if (!tensors)
      return std::nullopt;
    llvm::append_range(all, *tensors);
  }
  return all;
}

Value Differentiator::gradientOf(TensorRef tensor) const {
  if (!tensor.item)
    return gradients.lookup(tensor.value);
  auto items = itemGradients.find(tensor.value);
  return items == itemGradients.end() ? Value() : items->second[*tensor.item];
}

void Differentiator::accumulate(TensorRef tensor, Value gradient) {
  Value *sum = &gradients[tensor.value];
  if (tensor.item) {
    SmallVector<Value> &items = itemGradients[tensor.value];
    items.resize(itemsOf(*exampleOf(tensor.value)).size());
    sum = &items[*tensor.item];
  }
  // builder.sum does not insert into the maps, so `sum` stays valid.
  *sum = *sum ? builder.sum(*sum, gradient) : gradient;
}

//===- Values that require grad -------------------------------------------===//

bool Differentiator::isTrainable(ParamOp param) const {
  auto isAlias = [&](Attribute alias) { return options.isTrainable(cast<StringAttr>(alias).getValue()); };
  return param.getRole() == "parameter" && !param->hasAttr(kFrozenAttr) &&
         isDifferentiable({param, std::nullopt}) &&
         (options.isTrainable(param.getName()) ||
          (param.getAliases() && llvm::any_of(*param.getAliases(), isAlias)));
}

bool usesAny(Operation *op, const DenseSet<Value> &values) {
  auto isOne = [&](Value value) { return values.contains(value); };
  return llvm::any_of(op->getOperands(), isOne) || op->walk([&](Operation *inner) {
                                                       return llvm::any_of(inner->getOperands(), isOne)
                                                                  ? WalkResult::interrupt()
                                                                  : WalkResult::advance();
                                                     }).wasInterrupted();
}

void Differentiator::findRequiresGrad() {
  // The results of an operation with a weight in one of its regions require grad, too.
  function.walk([&](ParamOp param) {
    if (isTrainable(param))
      requiresGrad.insert(param);
  });
  for (Operation &op : function.getBody().front()) {
    auto call = dyn_cast<OperatorOp>(op);
    // A gradient does not reach what an earlier request left.
    if (isa<ReadStateOp>(op))
      continue;
    const OpSemantics &semantics = call ? semanticsOf(call.getName()) : OpSemantics();
    if (!usesAny(&op, requiresGrad) || semantics.stopsGradients)
      continue;
    const unsigned end = semantics.firstResultWithoutGradient.value_or(op.getNumResults());
    for (Value result : op.getResults().take_front(end)) {
      const c10::IValue *value = exampleOf(result);
      if (!value || isAggregate(*value) || value->isGenericDict() || isDifferentiable({result, std::nullopt}))
        requiresGrad.insert(result);
    }
  }
}

LogicalResult Differentiator::checkLoss(unsigned index) {
  Value loss = function.getBody().front().getTerminator()->getOperand(index);
  // A dynamic dimension may be 1 in the example inputs.
  for (const MetaInterpreter &run : samples.runs) {
    auto value = run.values.find(loss);
    if (value == run.values.end())
      continue;
    const bool isTensor = value->second.isTensor() && value->second.toTensor().defined();
    if (isTensor && value->second.toTensor().numel() == 1 && value->second.toTensor().is_floating_point())
      continue;
    std::string found = "no tensor";
    if (isTensor)
      llvm::raw_string_ostream(found = "") << loss.getType();
    auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttr);
    return function.emitError() << "the loss" << (name ? " '" + name.str() + "'" : std::string())
                                << ": found " << found << ", expected one floating-point number";
  }
  return success();
}

//===- Operations ---------------------------------------------------------===//

bool Differentiator::hasGradient(Operation *op) const {
  return llvm::any_of(op->getResults(),
                      [&](Value result) { return gradients.lookup(result) || itemGradients.count(result); });
}

/// The value that the call takes, by a constant key, from a dictionary made in the function; null for others.
static Value dictEntry(OperatorOp access) {
  auto dict = isItemAccess(access) ? access->getOperand(0).getDefiningOp<DictOp>() : DictOp();
  Attribute key, found;
  if (!dict || !matchPattern(access->getOperand(1), m_Constant(&key)))
    return {};
  Value entry;
  for (unsigned i = 0; i + 1 < dict->getNumOperands(); i += 2) {
    if (!matchPattern(dict->getOperand(i), m_Constant(&found)))
      return {};
    entry = found == key ? dict->getOperand(i + 1) : entry;
  }
  return entry;
}

LogicalResult Differentiator::visit(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  if (call && call.getSchema().writesAnyArgument() && usesAny(op, requiresGrad))
    return op->emitError() << op->getName() << " changes a value in place, which has no gradient";
  if (!hasGradient(op) || !usesAny(op, requiresGrad))
    return success();
  if (isa<BoundaryOp>(op)) {
    accumulate({op->getOperand(0), std::nullopt}, gradients.lookup(op->getResult(0)));
    return success();
  }
  if (isa<ListOp, TupleOp>(op)) {
    for (auto [item, gradient] : llvm::zip(op->getOperands(), itemGradients.lookup(op->getResult(0))))
      if (gradient)
        accumulate({item, std::nullopt}, gradient);
    return success();
  }
  if (Value entry = call ? dictEntry(call) : Value()) {
    accumulate({entry, std::nullopt}, gradients.lookup(op->getResult(0)));
    return success();
  }
  std::optional<unsigned> accessed = call && isItemAccess(op) ? constantItem(call) : std::nullopt;
  if (isa<UnpackOp>(op) || accessed) {
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (Value gradient = gradients.lookup(result))
        accumulate({op->getOperand(0), accessed.value_or(i)}, gradient);
      else if (itemGradients.count(result))
        return op->emitError() << "gradients of lists in lists are not supported";
    return success();
  }
  if (call)
    return visitCall(call);
  auto results = tensorsIn(op->getResults());
  if (!results)
    return op->emitError() << op->getName()
                           << " has no gradient: it gives lists whose length only data decides";
  return differentiateByAutograd(op, *results, "control flow");
}

/// The tensor, or a copy of it if its last dimension has gaps at any size.
Value Differentiator::contiguous(Value tensor) {
  const bool hasGaps = llvm::any_of(samples.runs, [&](const MetaInterpreter &run) {
    auto value = run.values.find(tensor);
    return value != run.values.end() && value->second.toTensor().dim() &&
           value->second.toTensor().stride(-1) != 1;
  });
  Type integer = builder.opBuilder().getI64Type();
  return hasGaps ? builder.call("aten.contiguous",
                                {tensor, builder.constant(integer, builder.opBuilder().getI64IntegerAttr(0))})
                 : tensor;
}

LogicalResult Differentiator::visitCall(OperatorOp op) {
  builder.setLocation(op->getLoc());
  auto operands = tensorsIn(op->getOperands()), results = tensorsIn(op->getResults());
  if (!operands || !results)
    return op->emitError() << op->getName()
                           << " has no gradient: its operands or results are no tensors or lists of tensors "
                           << "that are known without data";
  SmallVector<Value> given =
      llvm::map_to_vector(*results, [&](TensorRef tensor) { return gradientOf(tensor); });
  if (semanticsOf(op.getName()).needsContiguousGradient)
    for (Value &gradient : given)
      gradient = gradient ? contiguous(gradient) : gradient;
  std::vector<bool> needsInputGrad;
  for (TensorRef tensor : *operands)
    needsInputGrad.push_back(isDifferentiable(tensor) && requiresGrad.contains(tensor.value));
  if (!llvm::is_contained(needsInputGrad, true))
    return success();
  if (semanticsOf(op.getName()).isDifferentiatedByAutograd)
    return differentiateByAutograd(
        op, *results, "the tensors that " + op.getBaseName().str() + " saves depend on the device");
  auto rule = rules.find(op, given, needsInputGrad);
  if (!rule) {
    llvm::Error error = rule.takeError();
    const bool isMissing = error.isA<MissingDerivative>();
    const std::string reason = llvm::toString(std::move(error));
    if (!isMissing)
      return differentiateByAutograd(op, *results, reason);
    return op->emitError() << op->getName() << " has no gradient: " << reason;
  }

  auto valueOf = [&](RuleTensor of) -> Value {
    switch (of.source) {
    case RuleTensor::Source::Operand:
      return builder.materialize((*operands)[of.index]);
    case RuleTensor::Source::Result:
      return builder.materialize((*results)[of.index]);
    case RuleTensor::Source::Gradient:
      return given[of.index];
    default:
      return {};
    }
  };
  std::vector<SmallVector<Value>> made;
  if (rule->numForwardCalls && failed(replace(op, *rule, valueOf, made)))
    return failure();
  builder.build(*rule, rule->numForwardCalls, rule->calls.size(), valueOf, made);
  for (auto [tensor, gradient] : llvm::zip(*operands, rule->gradInputs)) {
    Value value =
        gradient.source == RuleTensor::Source::Call ? made[gradient.call][gradient.index] : valueOf(gradient);
    if (value)
      accumulate(tensor, value);
  }
  return success();
}

LogicalResult Differentiator::replace(OperatorOp op, const BackwardRule &rule,
                                      llvm::function_ref<Value(RuleTensor)> valueOf,
                                      std::vector<SmallVector<Value>> &made) {
  OpBuilder::InsertionGuard guard(builder.opBuilder());
  builder.opBuilder().setInsertionPoint(op);
  builder.build(rule, 0, rule.numForwardCalls, valueOf, made);
  auto replacementOf = [&](RuleTensor of) {
    return of.source == RuleTensor::Source::Call ? made[of.call][of.index] : valueOf(of);
  };
  size_t next = 0;
  for (Value result : op->getResults()) {
    const auto tensors = tensorsIn(result);
    SmallVector<Value> values;
    for (size_t i = 0; i < tensors->size(); ++i)
      values.push_back(replacementOf(rule.results[next++]));
    if (exampleOf(result)->isTensor()) {
      if (!values.empty() && values[0])
        result.replaceAllUsesWith(values[0]);
    } else if (isa<ListType>(result.getType())) {
      result.replaceAllUsesWith(builder.list(cast<ListType>(result.getType()).getElement(), values));
    }
  }
  if (!op->use_empty())
    return op->emitError() << op->getName() << " has no gradient: a result is no tensor";
  for (Value result : op->getResults()) {
    gradients.erase(result);
    itemGradients.erase(result);
    requiresGrad.erase(result);
  }
  for (MetaInterpreter &run : samples.runs)
    run.forget(op);
  op->erase();
  return success();
}

//===- The function -------------------------------------------------------===//

void Differentiator::dropOtherResults() {
  llvm::BitVector dropped(function.getNumResults());
  for (unsigned i = 0; i < dropped.size(); ++i)
    dropped[i] = !function.getResultAttr(i, kLossAttr) && !function.getResultAttr(i, kLossNormalizerAttr);
  function.getBody().front().getTerminator()->eraseOperands(dropped);
  function.eraseResults(dropped);
  // The tree of results that are gone; the optimizer makes another.
  function->removeAttr(kOutputTreeAttr);
}

void Differentiator::addResults() {
  llvm::MapVector<StringRef, Value> found;
  auto addTo = [&](StringRef name, Value of) {
    Value gradient = requiresGrad.contains(of) ? gradients.lookup(of) : Value();
    Value &sum = found[name];
    if (gradient)
      sum = sum ? builder.sum(sum, gradient) : gradient;
  };
  llvm::DenseSet<StringRef> weights;
  for (ParamOp param : function.getOps<ParamOp>()) {
    addTo(param.getName(), param);
    weights.insert(param.getName());
  }
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
    function.setResultAttr(index, kGradientAttr, builder.getUnitAttr());
    if (options.isForOptimizer && weights.contains(name))
      function.setResultAttr(index, kShardedAsAttr, builder.getStringAttr(name));
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
  auto index = indexOfLoss(function, options.loss);
  if (!index)
    return failure();
  function.setResultAttr(*index, kLossAttr, UnitAttr::get(function.getContext()));
  for (BlockArgument argument : function.getArguments())
    if (isDifferentiable({argument, std::nullopt}) && options.wantsInputGradient(nameOf(argument)))
      requiresGrad.insert(argument);
  findRequiresGrad();
  for (ReadStateOp state : function.getOps<ReadStateOp>())
    if (requiresGrad.contains(state.getInitial()))
      return state.emitError()
             << "weight '" << state.getName()
             << "' is written by the model itself, so that it has no gradient; leave it out with "
             << "trainable patterns";
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  const Value loss = terminator->getOperand(*index);
  if (exampleOf(loss) && failed(checkLoss(*index)))
    return failure();
  if (!requiresGrad.contains(loss))
    return function.emitError() << "the loss depends on no weight that is trained";
  numberOperations(function);
  builder.opBuilder().setInsertionPoint(terminator);
  builder.setLocation(loss.getLoc());
  SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  if (exampleOf(loss)) {
    Value none = builder.constant(builder.opBuilder().getNoneType(), builder.opBuilder().getUnitAttr());
    gradients[loss] = builder.call("aten.ones_like", {loss, none, none, none, none, none});
  } else if (failed(replaceLossByVjp(*index))) {
    return failure();
  }
  for (Operation *op : llvm::reverse(forward))
    if (!operationsOfLossVjp.contains(op) && failed(visit(op)))
      return failure();
  if (options.isForOptimizer)
    dropOtherResults();
  addResults();
  return success();
}

FailureOr<SmallVector<std::optional<unsigned>>> Differentiator::runVjp(ArrayRef<unsigned> results,
                                                                       const std::vector<bool> &wanted) {
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  for (auto [argument, isWanted] : llvm::zip(block.getArguments(), wanted))
    if (isWanted && isDifferentiable({argument, std::nullopt}))
      requiresGrad.insert(argument);
  findRequiresGrad();
  builder.opBuilder().setInsertionPoint(terminator);
  SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  for (auto [result, gradient] : llvm::zip(results, block.getArguments().drop_front(wanted.size())))
    gradients[terminator->getOperand(result)] = gradient;
  for (Operation *op : llvm::reverse(forward))
    if (failed(visit(op)))
      return failure();
  SmallVector<std::optional<unsigned>> found(wanted.size());
  for (auto [argument, isWanted, place] : llvm::zip(block.getArguments(), wanted, found))
    if (Value gradient = isWanted ? gradients.lookup(argument) : Value()) {
      place = terminator->getNumOperands();
      terminator->insertOperands(*place, gradient);
    }
  return found;
}

/// Runs `transform` with samples of the function, and then infers its types again.
static LogicalResult differentiateWith(func::FuncOp function,
                                       llvm::function_ref<LogicalResult(Samples &)> transform) {
  registerMetaKernels();
  useDifferentiableForms(function);
  MetaRunGuard guard;
  InferredValues inferred;
  inferred.limits = limitsOf(function);
  auto samples = sample(function, inferred.limits, /*onlyTraced=*/false);
  if (failed(samples))
    return failure();
  generalize(function, **samples, inferred);
  if (failed(transform(**samples)))
    return failure();
  removeGradientStops(function);
  generalize(function, **samples, inferred);
  setInferredTypes(function, inferred);
  return success();
}

LogicalResult differentiate(func::FuncOp function, const DerivativeOptions &options) {
  return differentiateWith(
      function, [&](Samples &samples) { return Differentiator(function, options, samples).run(); });
}

FailureOr<SmallVector<std::optional<unsigned>>> addVjp(func::FuncOp function, ArrayRef<unsigned> results,
                                                       const std::vector<bool> &wanted) {
  FailureOr<SmallVector<std::optional<unsigned>>> found = failure();
  const DerivativeOptions options;
  const LogicalResult done = differentiateWith(function, [&](Samples &samples) {
    return LogicalResult(found = Differentiator(function, options, samples).runVjp(results, wanted));
  });
  if (failed(done))
    return failure();
  return found;
}

} // namespace cleave
