//===- Functionalize.cpp - Functionalization of in-place operators --------===//
#include "frontend/torchscript/Functionalize.h"
#include "frontend/torchscript/Aliasing.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

namespace {
/// Works through a block in order. Every tensor has a *current* value, which differs from the value itself
/// once the tensor, its base, or another view of the base was written.
class Functionalizer {
public:
  LogicalResult run(Block &block);
  /// Makes states of the weights that `run` found to be written.
  LogicalResult makeStates(func::FuncOp function, const WeightTable &weights);
  /// Removes the operations that `run` has replaced.
  void eraseReplaced() {
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

private:
  /// The current value of a view, tuple, list or dict, and the operands that it was made from.
  struct Made {
    Value value;
    SmallVector<Value> of;
  };

  LogicalResult visit(Operation *op);
  LogicalResult visitRegion(Region &region);
  LogicalResult visitWrite(OperatorOp op);
  LogicalResult visitBatchNorm(OperatorOp op);
  FailureOr<SmallVector<Value>> currentOperands(Operation *op, Operation *user);
  /// Makes a view or aggregate of other operands, before `user`.
  void makeAgain(Operation *op, ArrayRef<Value> operands, Operation *user);
  /// For a boundary whose memory others see written: what replaces its value does not share it.
  void setReadOnly(BoundaryOp boundary);
  /// Sets what `result` is made from now, until the region being visited ends.
  void remember(Value result, Made now);
  /// The present value of `value`; null after a diagnostic.
  Value current(Value value, Operation *user);
  /// current for the result of a view or aggregate, which is made again if its operands have changed.
  Value currentOf(Operation *maker, Value value, Operation *user);
  /// Makes `value` the current value of `tensor` and writes it back into its bases.
  LogicalResult assign(Value tensor, Value value, OperatorOp writer, OpBuilder &b);
  LogicalResult assignThrough(Operation *view, Value tensor, Value value, OperatorOp writer, OpBuilder &b);

  /// By result of an in-place operator: the tensor that it wrote, which is no such result itself.
  DenseMap<Value, Value> sameAs;
  /// By tensor that was written and is no view: its current value.
  DenseMap<Value, Value> currents;
  DenseMap<Value, Made> made;
  /// Entries of `made` that the region being visited has changed, with their old values, since values made
  /// inside a region cannot be used outside.
  SmallVector<std::pair<Value, std::optional<Made>>> *changes = nullptr;
  /// In-place operators, and views and aggregates of their results, in order. Nothing uses them any more.
  SmallVector<Operation *> replaced;
};
} // namespace

/// Views and aggregates, whose content changes when their operands are written.
static bool isMadeOfTensors(Operation *op) { return isa<TupleOp, ListOp, DictOp>(op) || aliasedOperand(op); }

LogicalResult Functionalizer::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(visit(&op)))
      return failure();
  return success();
}

LogicalResult Functionalizer::visitRegion(Region &region) {
  SmallVector<std::pair<Value, std::optional<Made>>> inside;
  auto *outside = std::exchange(changes, &inside);
  LogicalResult result = run(region.front());
  changes = outside;
  for (auto &[value, before] : llvm::reverse(inside))
    if (before)
      made[value] = *before;
    else
      made.erase(value);
  return result;
}

/// True if it is a normalisation in training mode, or may be.
static bool updatesStatistics(OperatorOp op) {
  Value statistics = op.getArgument("running_mean");
  Value training = op.getArgument(semanticsOf(op.getName()).statisticsFlag);
  BoolAttr isTraining;
  return statistics && training && !isa<NoneType>(statistics.getType()) &&
         !(matchPattern(training, m_Constant(&isTraining)) && !isTraining.getValue());
}

/// Replaces a batch norm in training mode by one that returns the new statistics, which are then written.
LogicalResult Functionalizer::visitBatchNorm(OperatorOp op) {
  const StringRef functional = semanticsOf(op.getName()).functionalBatchNorm;
  if (functional.empty())
    return op->emitError() << op.getName()
                           << " updates its running statistics in place and has no form that does not; "
                           << "call eval() on the model before it is saved";
  auto operands = currentOperands(op, op);
  if (failed(operands))
    return failure();
  OpBuilder b(op);
  SmallVector<Type> types(5, UnknownTensorType::get(op->getContext()));
  // A ninth argument only chooses among libraries.
  Operation *plain =
      OperatorOp::create(b, op->getLoc(), functional, ValueRange(*operands).take_front(8), types);
  op->getResult(0).replaceAllUsesWith(plain->getResult(0));
  replaced.push_back(op);
  if (failed(assign(op->getOperand(3), plain->getResult(3), op, b)))
    return failure();
  return assign(op->getOperand(4), plain->getResult(4), op, b);
}

LogicalResult Functionalizer::visit(Operation *op) {
  for (Region &region : op->getRegions())
    if (failed(visitRegion(region)))
      return failure();
  if (auto call = dyn_cast<OperatorOp>(op)) {
    if (writtenOperand(call))
      return visitWrite(call);
    if (updatesStatistics(call))
      return visitBatchNorm(call);
    // Its schema does not say that it writes.
    if (StringRef declared = semanticsOf(call.getName()).declaredForm; !declared.empty())
      return call->emitError() << call.getName() << " writes its argument in place; use " << declared;
  }
  if (replaced.empty())
    return success();
  auto operands = currentOperands(op, op);
  if (failed(operands))
    return failure();
  if (!isMadeOfTensors(op))
    op->setOperands(*operands);
  else if (!llvm::equal(*operands, op->getOperands())) {
    makeAgain(op, *operands, op);
    replaced.push_back(op);
  }
  return success();
}

FailureOr<SmallVector<Value>> Functionalizer::currentOperands(Operation *op, Operation *user) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(current(operand, user));
    if (!operands.back())
      return failure();
  }
  return operands;
}

void Functionalizer::makeAgain(Operation *op, ArrayRef<Value> operands, Operation *user) {
  OpBuilder b(user);
  Operation *again = b.clone(*op);
  again->setOperands(operands);
  for (auto [result, now] : llvm::zip(op->getResults(), again->getResults()))
    remember(result, {now, SmallVector<Value>(operands)});
}

void Functionalizer::remember(Value result, Made now) {
  auto known = made.find(result);
  if (changes)
    changes->push_back({result, known == made.end() ? std::nullopt : std::optional<Made>(known->second)});
  made[result] = std::move(now);
}

void Functionalizer::setReadOnly(BoundaryOp boundary) {
  boundary.setReadOnly(true);
  if (Value now = made.lookup(boundary.getResult()).value)
    if (auto again = now.getDefiningOp<BoundaryOp>())
      again.setReadOnly(true);
}

Value Functionalizer::current(Value value, Operation *user) {
  if (!holdsTensors(value.getType()))
    return value;
  if (Value tensor = sameAs.lookup(value))
    value = tensor;
  Operation *maker = value.getDefiningOp();
  if (maker && isMadeOfTensors(maker))
    return currentOf(maker, value, user);
  Value now = currents.lookup(value);
  return now ? now : value;
}

/// Name of an operation in a message: by the operation that made the aggregate that it unpacks, and its
/// location.
static std::string describe(Operation *view) {
  while (isa<UnpackOp>(view) && view->getOperand(0).getDefiningOp())
    view = view->getOperand(0).getDefiningOp();
  StringRef path = modulePath(view);
  return (view->getName().getStringRef() + (path.empty() ? "" : " at ") + path).str();
}

Value Functionalizer::currentOf(Operation *maker, Value value, Operation *user) {
  // A copy, since the map may grow below.
  Made before{value, SmallVector<Value>(maker->getOperands())};
  if (auto known = made.find(value); known != made.end())
    before = known->second;
  auto operands = currentOperands(maker, user);
  if (failed(operands))
    return {};
  // Views keep the sizes that they were made with; only their bases change.
  if (Value base = aliasedOperand(maker))
    for (auto [operand, now, old] : llvm::zip(maker->getOperands(), *operands, before.of))
      if (operand != base)
        now = old;
  if (llvm::equal(*operands, before.of))
    return before.value;
  if (auto boundary = dyn_cast<BoundaryOp>(maker)) {
    setReadOnly(boundary);
    remember(value, {operands->front(), *operands});
    return operands->front();
  }
  if (!isCertainView(maker)) {
    user->emitError()
        << "uses the result of " << describe(maker)
        << " after its operand was written in place; whether they share memory is only known when "
           "running; use a copy";
    return {};
  }
  makeAgain(maker, *operands, user);
  return made.find(value)->second.value;
}

/// The list of parts `operands` with `value` in place of `part`. Null unless they cover one base.
static Value listWith(UnpackOp unpack, ArrayRef<Value> operands, Value part, Value value, OpBuilder &b) {
  auto maker = dyn_cast_or_null<OperatorOp>(unpack.getAggregate().getDefiningOp());
  if (!maker || !semanticsOf(maker.getName()).viewInverse)
    return {};
  Operation *now = b.clone(*unpack);
  now->setOperands(operands);
  SmallVector<Value> items(now->getResults());
  items[cast<OpResult>(part).getResultNumber()] = value;
  return b.create<ListOp>(unpack.getLoc(), operands.front().getType(), items);
}

/// The base's new value if the view `tensor` becomes `value`; `operands` are the view's. Null if there is no
/// inverse.
static Value writtenBack(Operation *view, ArrayRef<Value> operands, Value tensor, Value value, OpBuilder &b) {
  if (auto unpack = dyn_cast<UnpackOp>(view))
    return listWith(unpack, operands, tensor, value, b);
  auto call = dyn_cast<OperatorOp>(view);
  if (!call)
    return isa<BoundaryOp>(view) ? value : Value();
  const OpSemantics &semantics = semanticsOf(call.getName());
  if (semantics.viewInverse) {
    Operation *onBase = b.clone(*view);
    onBase->setOperands(operands);
    Value result = semantics.viewInverse(OperatorOp(onBase), value, b);
    if (onBase->use_empty())
      onBase->erase();
    return result;
  }
  if (semantics.scatterForm.empty())
    return {};
  // `slice(base, dim, …)` → `slice_scatter(base, value, dim, …)`, without the overload.
  SmallVector<Value> arguments{operands.front(), value};
  llvm::append_range(arguments, operands.drop_front());
  return OperatorOp::create(b, view->getLoc(), semantics.scatterForm, arguments, value.getType())
      ->getResult(0);
}

LogicalResult Functionalizer::assignThrough(Operation *view, Value tensor, Value value, OperatorOp writer,
                                            OpBuilder &b) {
  Value base = aliasedOperand(view);
  auto operands = currentOperands(view, writer);
  if (failed(operands))
    return failure();
  if (!isCertainView(view)) {
    if (rootOf(base).getDefiningOp<ParamOp>() || !isPrivate(rootOf(base)) ||
        isSeenLater(base, tensor, writer))
      return writer->emitError()
             << writer.getName() << " writes the result of " << describe(view)
             << " in place; whether its operand changes as well is only known when running; use a "
             << "copy";
    made[tensor] = {value, *operands};
    return success();
  }
  if (auto unpack = dyn_cast<UnpackOp>(view); unpack && unpacksUnaliasedPieces(unpack, writer)) {
    made[tensor] = {value, *operands};
    return success();
  }
  if (auto boundary = dyn_cast<BoundaryOp>(view);
      boundary && (!isPrivate(rootOf(base)) || isSeenLater(base, tensor, writer)))
    setReadOnly(boundary);
  Value changed = writtenBack(view, *operands, tensor, value, b);
  if (!changed)
    return writer->emitError() << writer.getName() << " writes in place through " << describe(view)
                               << ", a view that cannot be written back; use a copy";
  if (failed(assign(base, changed, writer, b)))
    return failure();
  // The view itself is up to date.
  operands = currentOperands(view, writer);
  if (failed(operands))
    return failure();
  made[tensor] = {value, *operands};
  return success();
}

LogicalResult Functionalizer::assign(Value tensor, Value value, OperatorOp writer, OpBuilder &b) {
  if (Value same = sameAs.lookup(tensor))
    tensor = same;
  Operation *maker = tensor.getDefiningOp();
  if (auto param = dyn_cast_or_null<ParamOp>(maker); param && param.getRole() == "constant")
    return writer->emitError() << writer.getName() << " writes constant " << param.getName()
                               << " of the program in place; make it a buffer, or use a copy";
  if (tensor.getParentBlock() != writer->getBlock())
    return writer->emitError() << writer.getName()
                               << " writes a tensor in place that was made outside this branch or "
                               << "loop; return the new value from it instead";
  if (maker && aliasedOperand(maker))
    return assignThrough(maker, tensor, value, writer, b);
  if (!isa_and_nonnull<ParamOp>(maker) && !isPrivate(tensor))
    return writer->emitError()
           << writer.getName() << " writes a tensor in place that a branch or loop may have taken "
           << "from outside; whether that changes as well is only known when running; use a copy";
  currents[tensor] = value;
  return success();
}

/// True if `plain` takes the arguments of `written`, and writes none.
static bool isFunctionalFormOf(const OperatorSchema *plain, const OperatorSchema &written) {
  return plain && !plain->writesAnyArgument() && plain->arguments.size() == written.arguments.size() &&
         llvm::all_of(llvm::zip(plain->arguments, written.arguments), [](auto pair) {
           auto &[left, right] = pair;
           return left.type == right.type;
         });
}

/// `aten.add_.Tensor` → `aten.add.Tensor`, if the registry has it with the same arguments.
static std::string functionalName(OperatorOp op) {
  StringRef base = op.getBaseName();
  std::string rest = op.getName().drop_front(base.size()).str();
  if (!base.consume_back("_") || base.ends_with("_"))
    return {};
  // The overload of the same name, or one with the same arguments: `floor_divide_.Tensor` corresponds to
  // `floor_divide`, `pow_.Scalar` to `pow.Tensor_Scalar`, `bernoulli_.float` to `bernoulli.p`.
  const OperatorSchema *plain = findSchema(base.str() + rest);
  if (!isFunctionalFormOf(plain, op.getSchema())) {
    auto form = llvm::find_if(allSchemas(), [&](const OperatorSchema *each) {
      StringRef name = each->irName;
      return name.consume_front(base) && (name.empty() || name.starts_with(".")) &&
             isFunctionalFormOf(each, op.getSchema());
    });
    plain = form == allSchemas().end() ? nullptr : *form;
  }
  if (!plain)
    return {};
  // `unsqueeze_` makes another view of its tensor, and writes nothing.
  const OpSemantics &semantics = semanticsOf(plain->irName);
  return semantics.isView && !semantics.identityOf && !semantics.stopsGradients ? std::string()
                                                                                : plain->irName;
}

/// True if the operator's result may have another dtype than its first operand, to which the in-place
/// operator casts it.
static bool mayChangeDType(OperatorOp op) {
  const ResultDType dtype = semanticsOf(op.getName()).resultDType;
  auto isTensor = [](const OperatorSchema::Argument &argument) { return argument.type == "Tensor"; };
  return dtype == ResultDType::Bool ||
         (dtype == ResultDType::Promoted && llvm::count_if(op.getSchema().arguments, isTensor) > 1);
}

LogicalResult Functionalizer::visitWrite(OperatorOp op) {
  std::string name = functionalName(op);
  Value tensor = op->getOperand(0);
  if (name.empty() || writtenOperand(op) != tensor || !isTensorLike(tensor.getType()))
    return op->emitError() << op.getName()
                           << " writes its argument in place and has no form that does not; use one "
                           << "that returns the new value";
  OpBuilder b(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value now = current(operand, op);
    if (!now)
      return failure();
    operands.push_back(now);
  }
  OperatorOp plain(OperatorOp::create(b, op->getLoc(), name, operands, op->getResultTypes()));
  Value result = plain->getResult(0);
  if (mayChangeDType(plain))
    result = OperatorOp::create(b, op->getLoc(), "aten.type_as", {result, operands[0]}, result.getType())
                 ->getResult(0);
  // Users of the operator's result follow the tensor from here on.
  Value same = sameAs.lookup(tensor);
  sameAs[op->getResult(0)] = same ? same : tensor;
  replaced.push_back(op);
  return assign(tensor, result, op, b);
}

LogicalResult Functionalizer::makeStates(func::FuncOp function, const WeightTable &weights) {
  Operation *end = function.getBody().front().getTerminator();
  for (ParamOp param : llvm::make_early_inc_range(function.getOps<ParamOp>())) {
    Value now = currents.lookup(param);
    if (!now)
      continue;
    if (std::string other = weights.sharingMemory(param.getName()); !other.empty())
      return param.emitError() << "writes " << param.getRole() << " " << param.getName()
                               << " in place, which shares memory with " << other
                               << "; use a copy of one of them";
    for (Operation *user : param->getUsers())
      if (auto other = dyn_cast<ReadStateOp>(user))
        return param.emitError() << "writes " << param.getRole() << " " << param.getName()
                                 << " in place and sets attribute " << other.getName()
                                 << ", which is the same tensor; use a copy of one of them";
    OpBuilder b(param);
    b.setInsertionPointAfter(param);
    auto state =
        b.create<ReadStateOp>(param.getLoc(), param.getType(), param.getName(), param, /*batch_dim=*/nullptr);
    param.getResult().replaceAllUsesExcept(state, state);
    OpBuilder(end).create<WriteStateOp>(param.getLoc(), param.getName(), now);
  }
  return success();
}

/// Another attribute or weight that is the same tensor as the state, before or after the call. Empty if none
/// is visible.
static std::string sharerOf(ReadStateOp state, func::FuncOp function, const WeightTable &weights) {
  if (auto param = state.getInitial().getDefiningOp<ParamOp>()) {
    if (!param->hasOneUse())
      return param.getName().str();
    if (std::string other = weights.sharingMemory(param.getName()); !other.empty())
      return other;
  }
  auto updates = function.getOps<WriteStateOp>();
  auto own = llvm::find_if(updates, [&](WriteStateOp update) { return update.getState() == state; });
  for (WriteStateOp update : updates)
    if (update != *own && rootOf(update.getValue()) == rootOf((*own).getValue()))
      return update.getName().str();
  return "";
}

/// Fails if writing an attribute's tensor in place would change another attribute with the same tensor.
static LogicalResult checkSharedStates(func::FuncOp function, const WeightTable &weights) {
  WalkResult walk = function.walk([&](OperatorOp op) {
    Value written = writtenOperand(op);
    auto state = written ? rootOf(written).getDefiningOp<ReadStateOp>() : ReadStateOp();
    std::string other = state ? sharerOf(state, function, weights) : "";
    if (other.empty())
      return WalkResult::advance();
    return WalkResult(op->emitError()
                      << op.getName() << " writes attribute " << state.getName()
                      << " in place, which may be the same tensor as " << other << "; use a copy");
  });
  return failure(walk.wasInterrupted());
}

LogicalResult functionalize(func::FuncOp function, const WeightTable &weights) {
  if (failed(checkSharedStates(function, weights)))
    return failure();
  Functionalizer functionalizer;
  if (failed(functionalizer.run(function.getBody().front())) ||
      failed(functionalizer.makeStates(function, weights)))
    return failure();
  functionalizer.eraseReplaced();
  return success();
}

} // namespace cleave
