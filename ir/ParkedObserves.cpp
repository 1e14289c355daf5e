//===- ParkedObserves.cpp - Observes out of the way of a pass -------------===//
#include "ir/ParkedObserves.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"

using namespace mlir;

namespace cleave {

/// The last operation before `op` that is no constant, which canonicalize moves; null if there is none.
static Operation *placeBefore(Operation *op) {
  for (op = op->getPrevNode(); op && (isa<ObserveOp>(op) || op->hasTrait<OpTrait::ConstantLike>());)
    op = op->getPrevNode();
  return op;
}

ParkedObserves::ParkedObserves(Operation *root, bool keepsPartialSums) : keepsPartialSums(keepsPartialSums) {
  SmallVector<ObserveOp> found;
  root->walk([&](ObserveOp op) {
    if (!op.getDeclared())
      found.push_back(op);
  });
  for (ObserveOp op : found)
    park(op);
  for (ObserveOp op : found) {
    op->remove();
    op.getValueMutable().drop();
  }
}

ParkedObserves::~ParkedObserves() {
  for (Entry &entry : entries)
    restore(entry);
}

void ParkedObserves::park(ObserveOp op) {
  Entry entry{op, op.getValue(), op->getBlock(), placeBefore(op)};
  byValue[entry.value].push_back(entries.size());
  byPrevious[entry.previous].push_back(entries.size());
  entries.push_back(entry);
}

static Block::iterator skipObserves(Block::iterator at, Block &block) {
  while (at != block.end() && isa<ObserveOp>(*at))
    ++at;
  return at;
}

void ParkedObserves::restore(Entry &entry) {
  if (!entry.value) {
    entry.op->erase();
    return;
  }
  Operation *previous = entry.previous, *maker = entry.value.getDefiningOp();
  if (maker && maker->getBlock() == entry.block && (!previous || previous->isBeforeInBlock(maker)))
    previous = maker;
  Block::iterator at = previous ? std::next(Block::iterator(previous)) : entry.block->begin();
  entry.block->getOperations().insert(skipObserves(at, *entry.block), entry.op);
  entry.op.getValueMutable().set(entry.value);
}

void ParkedObserves::drop(unsigned index) {
  llvm::erase(byValue[entries[index].value], index);
  entries[index].value = Value();
}

void ParkedObserves::move(unsigned index, Value to) {
  Entry &entry = entries[index];
  llvm::erase(byValue[entry.value], index);
  Operation *maker = to.getDefiningOp();
  // What is no result of the program's own operations has nothing to edit.
  const bool isFixed = !maker || isa<ParamOp>(maker) || maker->hasTrait<OpTrait::ConstantLike>();
  entry.value = isFixed || !isTensorLike(to.getType()) ? Value() : to;
  if (!entry.value)
    return;
  Indices &others = byValue[to];
  others.insert(llvm::upper_bound(others, index), index);
}

void ParkedObserves::markReadOnly(unsigned index) { entries[index].op.setReadOnly(true); }

//===- Merged values ------------------------------------------------------===//

/// True if the operation, or the one around it, comes after the observe.
bool ParkedObserves::isBefore(const Entry &entry, Operation *user) const {
  Operation *here = entry.block->findAncestorOpInBlock(*user);
  return !here || !entry.previous || entry.previous->isBeforeInBlock(here);
}

bool ParkedObserves::isReadAfter(const Entry &entry, Value value, Operation *except) const {
  return llvm::any_of(value.getUsers(),
                      [&](Operation *user) { return user != except && isBefore(entry, user); });
}

/// Observes are numbered in program order.
bool ParkedObserves::isObservedAfter(unsigned index, Value value) const {
  auto found = byValue.find(value);
  return found != byValue.end() && llvm::any_of(found->second, [&](unsigned other) { return other > index; });
}

/// `from`, a result of `op`, becomes `to`: marks the observes whose edits would reach other operations than
/// before.
void ParkedObserves::markMerged(Operation *op, Value from, Value to) {
  auto observesOf = [&](Value value) {
    auto found = byValue.find(value);
    return found == byValue.end() ? Indices() : found->second;
  };
  // An edit of `from` would reach the users of `to`.
  for (unsigned index : observesOf(from))
    if (isReadAfter(entries[index], to, op) || isObservedAfter(index, to))
      markReadOnly(index);
  // An edit of `to` would reach the users of `from`, which it does already where `from` is made of it.
  for (unsigned index : observesOf(to)) {
    const bool isMadeOfIt = isBefore(entries[index], op) && llvm::is_contained(op->getOperands(), to);
    if (!isMadeOfIt && (isReadAfter(entries[index], from, nullptr) || isObservedAfter(index, from)))
      markReadOnly(index);
  }
  // An edit between the two of what both are made of would no longer reach the users of `from`.
  Operation *maker = to.getDefiningOp();
  for (Value operand : op->getOperands())
    if (operand != to)
      for (unsigned index : observesOf(operand))
        if ((!maker || !isBefore(entries[index], maker)) && isBefore(entries[index], op))
          markReadOnly(index);
}

//===- What a pass does ---------------------------------------------------===//

void ParkedObserves::notifyOperationReplaced(Operation *op, ValueRange replacement) {
  for (auto [from, to] : llvm::zip(op->getResults(), replacement)) {
    if (!to || from == to)
      continue;
    markMerged(op, from, to);
    for (unsigned index : Indices(byValue.lookup(from)))
      move(index, to);
  }
}

/// The partial sums that an all-reduce adds up; null for other operations.
static Value partialSums(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  const bool isSum = call && semanticsOf(call.getName()).collective == CollectiveKind::AllReduce;
  return isSum ? op->getOperand(0) : Value();
}

void ParkedObserves::notifyOperationErased(Operation *op) {
  const Value partial = keepsPartialSums ? partialSums(op) : Value();
  for (Value result : op->getResults()) {
    for (unsigned index : Indices(byValue.lookup(result))) {
      if (!partial) {
        drop(index);
        continue;
      }
      move(index, partial);
      entries[index].op.setPartial(true);
    }
    byValue.erase(result);
  }
  auto followers = byPrevious.find(op);
  if (followers == byPrevious.end())
    return;
  const Indices moved = followers->second;
  byPrevious.erase(followers);
  Operation *previous = placeBefore(op);
  for (unsigned index : moved)
    entries[index].previous = previous;
  llvm::append_range(byPrevious[previous], moved);
}

//===- Helpers ------------------------------------------------------------===//

void eraseObserves(Operation *root) {
  root->walk([](ObserveOp op) {
    if (!op.getDeclared())
      op.erase();
  });
}

/// True if something after the operation, in its block, reads or observes the value.
static bool isReadAfter(Value value, Operation *op) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
    return !here || op->isBeforeInBlock(here);
  });
}

void observeBoundary(BoundaryOp boundary) {
  OpBuilder b(boundary);
  auto op = b.create<ObserveOp>(boundary.getLoc(), boundary.getValue(), boundary.getPath(),
                                boundary.getIndex(), boundary.getCall());
  op.setDeclared(true);
  // A new value would reach the users of both.
  op.setReadOnly(boundary.getReadOnly() || isReadAfter(boundary.getValue(), boundary));
  for (Operation *user : boundary.getValue().getUsers())
    if (auto other = dyn_cast<ObserveOp>(user); other && isReadAfter(boundary.getResult(), other))
      other.setReadOnly(other.getReadOnly() || boundary->isBeforeInBlock(other));
  boundary.getResult().replaceAllUsesWith(boundary.getValue());
  boundary.erase();
}

void setInsertionPointAfterObserved(OpBuilder &b, Value value) {
  b.setInsertionPointAfterValue(value);
  b.setInsertionPoint(b.getInsertionBlock(), skipObserves(b.getInsertionPoint(), *b.getInsertionBlock()));
}

} // namespace cleave
