//===- Aliasing.cpp - Tensors that share memory ---------------------------===//
#include "frontend/torchscript/Aliasing.h"
#include "ir/Cleave.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

bool holdsTensors(Type type) {
  if (auto list = dyn_cast<ListType>(type))
    return holdsTensors(list.getElement());
  if (auto dict = dyn_cast<DictType>(type))
    return holdsTensors(dict.getValue());
  if (auto optional = dyn_cast<OptionalType>(type))
    return holdsTensors(optional.getElement());
  if (auto tuple = dyn_cast<TupleType>(type))
    return llvm::any_of(tuple.getTypes(), holdsTensors);
  return isTensorLike(type) || isa<AnyType>(type);
}

Value writtenOperand(OperatorOp op) {
  if (op.getSchema().isVariadic)
    return {};
  for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOperands()))
    if (argument.isWritten && holdsTensors(operand.getType()))
      return operand;
  return {};
}

Value aliasedOperand(Operation *op) {
  if (isa<BoundaryOp, UnpackOp>(op))
    return op->getOperand(0);
  auto call = dyn_cast<OperatorOp>(op);
  if (!call || call->getNumOperands() == 0 || !llvm::any_of(op->getResultTypes(), holdsTensors))
    return {};
  if (semanticsOf(call.getName()).mayReturnOperand || isItemAccess(op))
    return op->getOperand(0);
  if (call.getSchema().isVariadic)
    return {};
  for (auto [argument, operand] : llvm::zip(call.getSchema().arguments, op->getOperands()))
    if (argument.isAliased && holdsTensors(operand.getType()))
      return operand;
  return {};
}

bool isCertainView(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return true;
  const OpSemantics &semantics = semanticsOf(call.getName());
  return semantics.isView || isItemAccess(op) || writtenOperand(call);
}

Value rootOf(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    Value base = aliasedOperand(maker);
    if (!base)
      break;
    value = base;
  }
  return value;
}

/// True if a region makes the value that it yields, and nothing else has it.
static bool isMadeInside(Region &region, unsigned yielded) {
  Value root = rootOf(region.front().getTerminator()->getOperand(yielded));
  return root.getParentRegion() == &region && isPrivate(root);
}

/// `root` and all values that may share memory with it or hold it, except for `except` and values derived
/// from that.
static llvm::SetVector<Value> aliasesOf(Value root, Value except = {}) {
  llvm::SetVector<Value> aliases;
  aliases.insert(root);
  for (size_t i = 0; i < aliases.size(); ++i)
    for (Operation *user : SmallVector<Operation *>(aliases[i].getUsers()))
      if (aliasedOperand(user) == aliases[i] || isa<TupleOp, ListOp, DictOp>(user))
        for (Value result : user->getResults())
          if (result != except)
            aliases.insert(result);
  return aliases;
}

/// True if only the loop uses the memory of an initial value from then on.
static bool isHandedOver(Value init, LoopOp loop) {
  Value root = rootOf(init);
  if (root.getParentBlock() != loop->getBlock() || !isPrivate(root))
    return false;
  unsigned count = 0;
  for (Value alias : aliasesOf(root))
    for (Operation *user : alias.getUsers()) {
      Operation *here = loop->getBlock()->findAncestorOpInBlock(*user);
      count += user == loop;
      if (user != loop && (!here || here == loop || loop->isBeforeInBlock(here)))
        return false;
    }
  return count == 1;
}

/// True if a loop's carried value `index` is never a tensor that is used outside or in another carried value.
static bool isPrivatelyCarried(LoopOp loop, unsigned index) {
  Value yielded = rootOf(loop.getBody().front().getTerminator()->getOperand(index + 1));
  return isHandedOver(loop.getInits()[index], loop) &&
         (yielded == loop.getBody().getArgument(index + 1) ||
          (!isa<BlockArgument>(yielded) && isMadeInside(loop.getBody(), index + 1)));
}

bool isPrivate(Value root) {
  if (auto argument = dyn_cast<BlockArgument>(root)) {
    auto loop = dyn_cast<LoopOp>(argument.getOwner()->getParentOp());
    return !loop || (argument.getArgNumber() > 0 && isPrivatelyCarried(loop, argument.getArgNumber() - 1));
  }
  unsigned index = cast<OpResult>(root).getResultNumber();
  Operation *maker = root.getDefiningOp();
  if (auto branch = dyn_cast<IfOp>(maker))
    return isMadeInside(branch.getThenRegion(), index) && isMadeInside(branch.getElseRegion(), index);
  if (auto loop = dyn_cast<LoopOp>(maker))
    return isPrivatelyCarried(loop, index);
  return !isa<ParamOp>(maker);
}

bool isSeenLater(Value base, Value written, Operation *writer) {
  for (Value alias : aliasesOf(rootOf(base), written)) {
    // In a loop, operations above the writer also run after it.
    if (alias.getParentBlock() != writer->getBlock())
      return true;
    for (Operation *user : alias.getUsers()) {
      Operation *here = writer->getBlock()->findAncestorOpInBlock(*user);
      if (!here || writer->isBeforeInBlock(here))
        return true;
    }
  }
  return false;
}

bool unpacksUnaliasedPieces(UnpackOp unpack, Operation *writer) {
  Value list = unpack.getAggregate();
  auto maker = dyn_cast_or_null<OperatorOp>(list.getDefiningOp());
  if (!maker || !list.hasOneUse() || !semanticsOf(maker.getName()).splitsOperand)
    return false;
  Value base = rootOf(maker->getOperand(0));
  return !base.getDefiningOp<ParamOp>() && isPrivate(base) && !isSeenLater(base, list, writer);
}

} // namespace cleave
