//===- Aggregates.cpp - Lists and dictionaries that are changed -----------===//
#include "ir/Aggregates.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace cleave {

static bool isAggregate(Type type) {
  if (auto optional = dyn_cast<OptionalType>(type))
    return isAggregate(optional.getElement());
  return isa<ListType, DictType, TupleType, AnyType>(type);
}

namespace {
/// Sets of aggregates that may be, hold, or be held in one another.
class Aliases {
public:
  explicit Aliases(Value value) { add(value); }

  bool areChanged() {
    for (size_t i = 0; i < found.size(); ++i) {
      Value value = found[i];
      Operation *maker = value.getDefiningOp();
      if (visit(maker ? maker : value.getParentBlock()->getParentOp()))
        return true;
      for (Operation *user : value.getUsers())
        if (visit(isa<YieldOp>(user) ? user->getParentOp() : user))
          return true;
    }
    return false;
  }

private:
  void add(Value value) {
    if (isAggregate(value.getType()))
      found.insert(value);
  }
  void add(ValueRange values) {
    for (Value value : values)
      add(value);
  }

  /// Adds the aggregates that the operation may connect; true if it writes one of them.
  bool visit(Operation *op) {
    // Each operation once, since a list of lists is used by as many values as it has items.
    if (!visited.insert(op).second)
      return false;
    if (auto call = dyn_cast<OperatorOp>(op))
      return visitOperator(call);
    // A function's arguments and results do not alias, and constants are shared only by operations that do
    // not write.
    if (op->getDialect() != op->getContext()->getLoadedDialect<CleaveDialect>() || isa<ConstantOp>(op))
      return false;
    add(op->getOperands());
    add(op->getResults());
    for (Region &region : op->getRegions()) {
      add(region.getArguments());
      if (region.front().mightHaveTerminator())
        add(region.front().getTerminator()->getOperands());
    }
    return false;
  }

  bool visitOperator(OperatorOp op) {
    bool passesOn = isItemAccess(op);
    for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOperands())) {
      if (!isAggregate(operand.getType()))
        continue;
      if (argument.isWritten)
        return true;
      passesOn |= argument.isAliased;
    }
    if (passesOn) {
      add(op->getOperands());
      add(op->getResults());
    }
    return false;
  }

  llvm::SetVector<Value> found;
  llvm::SmallPtrSet<Operation *, 8> visited;
};
} // namespace

bool mayChange(Value value) { return isAggregate(value.getType()) && Aliases(value).areChanged(); }

} // namespace cleave
