//===- CapturePoints.cpp - Observes of a stage as capture points ----------===//
#include "codegen/CapturePoints.h"
#include "codegen/plan/PlanQueries.h"
#include "ir/OperatorDialect.h"
#include "ir/UsedValues.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <map>

using namespace mlir;

namespace cleave {

static bool isFixed(Value value) {
  Operation *maker = value.getDefiningOp();
  return !maker || isa<ConstantOp, PerRankOp, SizeOp, ParamOp>(maker) || prepacksWeights(maker);
}

/// True if the operation reads sizes alone.
static bool readsNoElements(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  return call && semanticsOf(call.getName()).readsNoElements;
}

static bool isOfModule(Operation *op, ObserveOp observe) {
  auto other = dyn_cast<ObserveOp>(op);
  return other && other.getPath() == observe.getPath() && other.getCall() == observe.getCall();
}

/// True if something that was computed from the value before the observe is used after it, and is no other
/// result of the module: CSE has merged it with what the edited value should give.
static bool leaksBefore(ObserveOp observe) {
  Operation *maker = observe.getValue().getDefiningOp();
  Block &block = *observe->getBlock();
  llvm::DenseSet<Value> derived{observe.getValue()};
  for (Operation *op = maker->getNextNode(); op != observe; op = op->getNextNode()) {
    if (isa<ObserveOp>(op) || readsNoElements(op) ||
        llvm::none_of(usedValues(op), [&](Value value) { return derived.contains(value); }))
      continue;
    for (Value result : op->getResults()) {
      derived.insert(result);
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return isOfModule(user, observe); }))
        continue;
      for (Operation *user : result.getUsers())
        if (!isa<ObserveOp>(user) && observe->isBeforeInBlock(block.findAncestorOpInBlock(*user)))
          return true;
    }
  }
  return false;
}

bool isWritable(ObserveOp observe) {
  return !observe.getReadOnly() && !isFixed(observe.getValue()) && !leaksBefore(observe);
}

static Observed describe(ObserveOp op) {
  return {op.getValue(),
          op->getNextNode(),
          withoutCalls(op.getPath()),
          uint32_t(op.getIndex()),
          uint32_t(op.getCall()),
          op.getDeclared(),
          isWritable(op),
          op.getPartial(),
          op.getShard(),
          op.getWhole().value_or(op.getValue().getType())};
}

/// A boundary of an input or weight, which no observe has taken the place of.
static Observed describe(BoundaryOp op) {
  return {op.getValue(),           op->getNextNode(),      withoutCalls(op.getPath()),
          uint32_t(op.getIndex()), uint32_t(op.getCall()),
          /*isDeclared=*/true,
          /*isWritable=*/false,
          /*isPartial=*/false,     std::nullopt,           op.getType()};
}

std::vector<Observed> takeObserves(StageOp stage) {
  Block &body = stage.getBody().front();
  std::vector<Observed> found;
  for (Operation &op : body)
    if (auto observe = dyn_cast<ObserveOp>(op))
      found.push_back(describe(observe));
    else if (auto boundary = dyn_cast<BoundaryOp>(op); boundary && isTensorLike(boundary.getType()))
      found.push_back(describe(boundary));
  SmallVector<Operation *> taken;
  stage.walk([&](Operation *op) {
    if (isa<ObserveOp, BoundaryOp>(op))
      taken.push_back(op);
  });
  llvm::SmallPtrSet<Operation *, 16> gone(taken.begin(), taken.end());
  for (Observed &one : found) {
    while (gone.contains(one.next))
      one.next = one.next->getNextNode();
    while (auto boundary = one.value.getDefiningOp<BoundaryOp>())
      one.value = boundary.getValue();
  }
  for (Operation *op : taken) {
    if (auto boundary = dyn_cast<BoundaryOp>(op))
      boundary.replaceAllUsesWith(boundary.getValue());
    op->erase();
  }
  if (stage.getPhase() != Phase::Forward)
    found.clear();
  return found;
}

std::unique_ptr<plan::CapturePoint> capturePointOf(const Observed &observed, uint32_t stage, uint32_t slot,
                                                   uint32_t after, uint32_t tpRank,
                                                   const SymbolIndices &symbols) {
  auto point = std::make_unique<plan::CapturePoint>();
  point->path = observed.path;
  point->index = observed.index;
  point->call = observed.call;
  point->stage = stage;
  point->writable = observed.isWritable;
  point->partial = observed.isPartial;
  point->type = tensorTypeOf(observed.type, symbols);
  // Strides are those of the parts.
  point->type->strides.clear();
  auto part = std::make_unique<plan::CaptureSlot>();
  part->tp_rank = tpRank;
  part->slot = slot;
  part->after = after;
  if (observed.shard && !observed.isPartial)
    part->ranges.push_back(rangesOf(*observed.shard, tpRank));
  point->slots.push_back(std::move(part));
  return point;
}

static auto keyOf(const plan::CapturePoint &point) {
  return std::tuple(point.stage, point.path, point.call, point.index);
}

void CapturePointTable::add(std::vector<std::unique_ptr<plan::CapturePoint>> own, uint32_t tpRank) {
  if (tpRank == 0)
    return void(std::move(own.begin(), own.end(), std::back_inserter(points)));
  std::map<std::tuple<uint32_t, std::string, uint32_t, uint32_t>, plan::CapturePoint *> known;
  for (auto &point : points)
    known[keyOf(*point)] = point.get();
  for (auto &point : own) {
    auto first = known.find(keyOf(*point));
    if (first == known.end() || first->second->slots.size() != tpRank ||
        first->second->partial != point->partial)
      continue;
    first->second->writable &= point->writable;
    first->second->slots.push_back(std::move(point->slots.front()));
  }
}

std::vector<std::unique_ptr<plan::CapturePoint>> CapturePointTable::take(uint32_t ranks) {
  llvm::erase_if(points, [&](auto &point) { return point->slots.size() != ranks; });
  return std::exchange(points, {});
}

} // namespace cleave
