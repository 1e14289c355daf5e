//===- Functionalize.cpp - In-place operators without writing -------------===//
#include "frontend/Functionalize.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

namespace {
/// Works through a block in order. Every tensor has a *current* value, which differs from the value itself once the
/// tensor, its base, or another view of the base was written.
class Functionalizer {
public:
  LogicalResult run(Block &block);
  /// Removes the operators that `run` has replaced.
  void eraseReplaced() {
    for (Operation *op : llvm::reverse(written))
      op->erase();
  }

private:
  /// How a tensor came from another: by which operation, and the other's version it was read at.
  struct Origin {
    Operation *view;
    Value base;
    unsigned version;
  };

  LogicalResult visit(Operation *op);
  LogicalResult visitWrite(OperatorOp op);
  void visitView(Operation *op);
  /// The value to use for `tensor` now; null after a diagnostic.
  Value current(Value tensor, Operation *user);
  /// Makes `value` the current value of `tensor` and of what it is a view of.
  LogicalResult assign(Value tensor, Value value, Operation *writer, OpBuilder &b);
  Value writtenBack(Operation *view, Value base, Value value, OpBuilder &b);

  DenseMap<Value, Origin> origins;
  DenseMap<Value, Value> currents;
  /// Raised whenever the tensor is written, itself or through a view.
  DenseMap<Value, unsigned> versions;
  /// Result of an in-place operator → the tensor it is.
  DenseMap<Value, Value> sameAs;
  /// In-place operators that have been replaced, in order.
  SmallVector<Operation *> written;
};
} // namespace

/// The operand whose memory the operation's result may be, and whether that is certain. Null when there is none.
static Value aliasedOperand(Operation *op) {
  if (auto boundary = dyn_cast<BoundaryOp>(op))
    return boundary.getValue();
  auto call = dyn_cast<OperatorOp>(op);
  if (!call || call.getSchema().isVariadic)
    return {};
  for (auto [argument, operand] : llvm::zip(call.getSchema().arguments, op->getOperands()))
    if (argument.isAliased && isTensorLike(operand.getType()))
      return operand;
  return {};
}

static bool isCertainView(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  return !call || semanticsOf(call.getName()).isView;
}

LogicalResult Functionalizer::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(visit(&op)))
      return failure();
  return success();
}

LogicalResult Functionalizer::visit(Operation *op) {
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(run(block)))
        return failure();
  auto call = dyn_cast<OperatorOp>(op);
  if (call && call.getSchema().writesAnyArgument() && isTensorLike(op->getOperand(0).getType()))
    return visitWrite(call);
  if (!written.empty())
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isTensorLike(operand.get().getType()))
        continue;
      Value now = current(operand.get(), op);
      if (!now)
        return failure();
      operand.set(now);
    }
  visitView(op);
  return success();
}

void Functionalizer::visitView(Operation *op) {
  Value base = aliasedOperand(op);
  if (!base)
    return;
  for (Value result : op->getResults())
    origins[result] = {op, base, versions.lookup(base)};
}

Value Functionalizer::current(Value tensor, Operation *user) {
  if (Value same = sameAs.lookup(tensor))
    return current(same, user);
  auto origin = origins.find(tensor);
  if (origin != origins.end() && versions.lookup(origin->second.base) != origin->second.version) {
    auto [view, base, version] = origin->second;
    if (!isCertainView(view)) {
      user->emitError() << "uses the result of " << view->getName() << " at " << modulePath(view)
                        << " after its operand was written in place; whether they share memory is only known when "
                           "running; use a copy";
      return {};
    }
    // Views are made anew of the base's new value.
    Value now = current(base, user);
    if (!now)
      return {};
    OpBuilder b(user);
    Operation *again = b.clone(*view);
    again->replaceUsesOfWith(base, now);
    again->setOperand(0, now);
    currents[tensor] = again->getResult(cast<OpResult>(tensor).getResultNumber());
    origins[tensor].version = versions.lookup(base);
  }
  Value now = currents.lookup(tensor);
  return now ? now : tensor;
}

Value Functionalizer::writtenBack(Operation *view, Value base, Value value, OpBuilder &b) {
  auto call = dyn_cast<OperatorOp>(view);
  if (!call)
    return value; // a boundary is its operand
  const OpSemantics &semantics = semanticsOf(call.getName());
  if (semantics.viewBack) {
    Operation *onBase = b.clone(*view);
    onBase->setOperand(0, base);
    return semantics.viewBack(OperatorOp(onBase), value, b);
  }
  if (semantics.scatter.empty())
    return {};
  // `slice(base, dim, …)` → `slice_scatter(base, value, dim, …)`; the overload goes.
  SmallVector<Value> operands{base, value};
  llvm::append_range(operands, view->getOperands().drop_front());
  return OperatorOp::create(b, view->getLoc(), semantics.scatter, operands, base.getType())->getResult(0);
}

LogicalResult Functionalizer::assign(Value tensor, Value value, Operation *writer, OpBuilder &b) {
  if (Value same = sameAs.lookup(tensor))
    return assign(same, value, writer, b);
  if (auto param = tensor.getDefiningOp<ParamOp>())
    return writer->emitError() << "writes " << param.getRole() << " " << param.getName()
                               << " in place, which would keep state between calls; return the new value instead";
  if (tensor.getParentBlock() != writer->getBlock())
    return writer->emitError() << "writes a tensor in place that was made outside this branch or loop; return the new "
                                  "value from it instead";
  currents[tensor] = value;
  ++versions[tensor];
  auto origin = origins.find(tensor);
  if (origin == origins.end())
    return success();
  auto [view, base, version] = origin->second;
  bool isCertain = isCertainView(view);
  bool isUsedLater = llvm::any_of(base.getUsers(), [&](Operation *user) {
    Operation *here = writer->getBlock()->findAncestorOpInBlock(*user);
    return !here || writer->isBeforeInBlock(here);
  });
  if (!isCertain && !isUsedLater && !isa<BlockArgument>(base))
    return success();
  if (!isCertain)
    return writer->emitError() << "writes the result of " << view->getName() << " at " << modulePath(view)
                               << " in place; whether its operand changes as well is only known when running; use a "
                                  "copy";
  Value baseNow = current(base, writer);
  Value changed = baseNow ? writtenBack(view, baseNow, value, b) : Value();
  if (!changed)
    return writer->emitError() << "writes in place through " << view->getName() << " at " << modulePath(view)
                               << ", a view that cannot be written back; use a copy";
  if (failed(assign(base, changed, writer, b)))
    return failure();
  // The view itself is up to date.
  origins[tensor].version = versions.lookup(base);
  return success();
}

/// `aten.add_.Tensor` → `aten.add.Tensor`, if the registry has it with the same arguments.
static std::string functionalName(OperatorOp op) {
  StringRef base = op.getBaseName();
  std::string rest = op.getName().drop_front(base.size()).str();
  if (!base.consume_back("_") || base.ends_with("_"))
    return {};
  const OperatorSchema *plain = findSchema(base.str() + rest);
  if (!plain || plain->arguments.size() != op.getSchema().arguments.size() || plain->writesAnyArgument())
    return {};
  return plain->irName;
}

LogicalResult Functionalizer::visitWrite(OperatorOp op) {
  std::string name = functionalName(op);
  if (name.empty())
    return op->emitError() << "writes its argument in place and has no form that does not; use one that returns the "
                              "new value";
  OpBuilder b(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value now = isTensorLike(operand.getType()) ? current(operand, op) : operand;
    if (!now)
      return failure();
    operands.push_back(now);
  }
  Value tensor = op->getOperand(0);
  Value result = OperatorOp::create(b, op->getLoc(), name, operands, op->getResultTypes())->getResult(0);
  if (failed(assign(tensor, result, op, b)))
    return failure();
  // Users of the operator's own result follow the tensor from here on.
  sameAs[op->getResult(0)] = tensor;
  written.push_back(op);
  return success();
}

LogicalResult functionalize(func::FuncOp function) {
  Functionalizer functionalizer;
  if (failed(functionalizer.run(function.getBody().front())))
    return failure();
  functionalizer.eraseReplaced();
  return success();
}

} // namespace cleave
