//===- SplitStages.cpp - Operations into cleave.stage ---------------------===//
#include "ir/Cleave.h"
#include "ir/ParkedObserves.h"
#include "ir/UsedValues.h"
#include "mlir/IR/IRMapping.h"
#include "partitioner/cost/ModelGraph.h"
#include "passes/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SPLITSTAGES
#include "passes/Passes.h.inc"

/// The tools' limit of devices.
static constexpr int64_t kMaxStages = 65536;

namespace {
/// Which program an operation goes to.
struct Unit {
  int64_t stage;
  Phase phase;
  auto operator<=>(const Unit &) const = default;
};

/// A program while it is built.
struct UnitUnderConstruction {
  Region body;
  IRMapping inside;
  /// By operation of the old body: its clone.
  llvm::DenseMap<Operation *, Operation *> clones;
  /// Values from outside that the program takes, and its own values that others take, in the order of the
  /// requests.
  SmallVector<Value> inputs;
  llvm::SetVector<Value> outputs;
};

/// Builds the stages of one function, one for each phase that it has.
class StageSplitter {
public:
  StageSplitter(Block &block, int64_t count) : block(block), count(count) {
    for (int64_t stage = 0; stage < count; ++stage)
      unit({stage, Phase::Forward});
  }

  LogicalResult run() {
    for (auto boundary : llvm::make_early_inc_range(block.getOps<BoundaryOp>()))
      if (Operation *maker = boundary.getValue().getDefiningOp(); maker && unitOf(maker)) {
        if (!boundary.getValue().hasOneUse())
          keepApart(boundary, maker);
        observeBoundary(boundary);
      }
    for (Operation &op : block.without_terminator())
      if (auto own = unitOf(&op); own && !isa<ObserveOp>(op) && failed(cloneInto(&op, *own)))
        return failure();
    if (failed(placeResults(block.getTerminator())))
      return failure();
    placeObserves();
    replaceBody();
    return success();
  }

private:
  static std::optional<Unit> unitOf(Operation *op) {
    auto stage = stageIndexOf(op);
    return stage ? std::optional(Unit{*stage, phaseOf(op)}) : std::nullopt;
  }

  /// Gives the boundary an alias of its value, so that an edit does not reach other readers of the value: CSE
  /// may have merged it with that of another module or call.
  static void keepApart(BoundaryOp boundary, Operation *maker) {
    OpBuilder b(boundary);
    auto alias =
        OperatorOp::create(b, boundary.getLoc(), "aten.alias", boundary.getValue(), boundary.getType());
    alias->setDiscardableAttrs(maker->getDiscardableAttrDictionary());
    boundary.getValueMutable().assign(alias->getResult(0));
  }

  UnitUnderConstruction &unit(Unit own) {
    auto [entry, isNew] = units.try_emplace(own);
    if (isNew)
      entry->second.body.emplaceBlock();
    return entry->second;
  }

  /// The program through which `to` gets a value that `from` makes: `from` itself, or another that hands it
  /// on because it receives values of other stages in its phase. Nothing if the value cannot get there. The
  /// table is at ProgramInput in plan.fbs.
  static std::optional<Unit> routeOf(Unit from, Unit to) {
    const bool isLater = from.stage<to.stage, isEarlier = from.stage> to.stage;
    if (to.phase == Phase::Norm || to.phase == Phase::Update)
      return std::nullopt;
    if (from.phase == Phase::Forward) {
      if (isEarlier || to.phase == Phase::Forward)
        return isLater ? std::optional(from) : std::nullopt;
      return isLater ? Unit{to.stage, Phase::Forward} : from;
    }
    if (from.phase != Phase::BackwardInput || to.phase == Phase::Forward || isLater)
      return std::nullopt;
    if (to.phase == Phase::BackwardInput)
      return isEarlier ? std::optional(from) : std::nullopt;
    return isEarlier ? Unit{to.stage, Phase::BackwardInput} : from;
  }

  /// Makes `value` available in a program: as an input, or by cloning the operation that makes it.
  LogicalResult require(Value value, Unit own, Operation *user) {
    UnitUnderConstruction &target = unit(own);
    if (target.inside.contains(value))
      return success();
    Operation *maker = value.getDefiningOp();
    auto from = maker ? unitOf(maker) : std::nullopt;
    if (maker && !from)
      return cloneInto(maker, own);
    if (from) {
      auto through = routeOf(*from, own);
      if (!through)
        return refuse(user, *from, own);
      if (*through != *from && failed(require(value, *through, user)))
        return failure();
      unit(*through).outputs.insert(value);
      makers[value][own] = *through;
    }
    target.inputs.push_back(value);
    target.inside.map(value, target.body.front().addArgument(value.getType(), value.getLoc()));
    return success();
  }

  static LogicalResult refuse(Operation *user, Unit from, Unit to) {
    if (from.phase == Phase::Forward && to.phase == Phase::Forward)
      return user->emitError() << "is in stage " << to.stage << " but uses a value of stage " << from.stage
                               << "; values only flow to later stages";
    return user->emitError()
           << "is in stage " << to.stage << ", " << stringifyPhase(to.phase) << ", but uses a value of stage "
           << from.stage << ", " << stringifyPhase(from.phase)
           << "; gradients flow to earlier stages, and nothing flows back or into an update";
  }

  LogicalResult cloneInto(Operation *op, Unit own) {
    for (Value value : usedValues(op))
      if (failed(require(value, own, op)))
        return failure();
    // The region has no parent yet and cannot name its context.
    OpBuilder b(op->getContext());
    b.setInsertionPointToEnd(&unit(own).body.front());
    Operation *clone = b.clone(*op, unit(own).inside);
    unit(own).clones[op] = clone;
    clone->removeDiscardableAttr(kStageIndexAttr);
    clone->removeDiscardableAttr(PhaseAttr::name);
    return success();
  }

  /// Results that no stage makes (an input passed through, a constant) are made by the last stage.
  LogicalResult placeResults(Operation *terminator) {
    for (Value value : terminator->getOperands()) {
      Operation *maker = value.getDefiningOp();
      auto own = maker ? unitOf(maker) : std::nullopt;
      const Unit giver = own ? *own : Unit{count - 1, Phase::Forward};
      if (!own && failed(require(value, giver, terminator)))
        return failure();
      unit(giver).outputs.insert(value);
    }
    return success();
  }

  /// Each observe goes to the forward program that makes its value, behind the operations that were before
  /// it.
  void placeObserves() {
    std::map<Unit, Operation *> last;
    for (Operation &op : block.without_terminator()) {
      if (auto observe = dyn_cast<ObserveOp>(op))
        placeObserve(observe, last);
      else if (auto own = unitOf(&op))
        last[*own] = unit(*own).clones.lookup(&op);
    }
  }

  void placeObserve(ObserveOp observe, const std::map<Unit, Operation *> &last) {
    const SmallVector<Unit> makers = makersOf(observe.getValue());
    if (makers.empty() || makers.front().phase != Phase::Forward)
      return;
    UnitUnderConstruction &target = unit(makers.front());
    Operation *maker = target.clones.lookup(observe.getValue().getDefiningOp()), *before = maker;
    if (auto found = last.find(makers.front()); found != last.end() && maker->isBeforeInBlock(found->second))
      before = found->second;
    OpBuilder b(observe.getContext());
    b.setInsertionPointAfter(before);
    while (b.getInsertionPoint() != b.getInsertionBlock()->end() && isa<ObserveOp>(*b.getInsertionPoint()))
      b.setInsertionPointAfter(&*b.getInsertionPoint());
    auto placed = cast<ObserveOp>(b.clone(*observe, target.inside));
    placed->removeDiscardableAttr(kStageIndexAttr);
    if (makers.size() > 1 || isReadBeforeElsewhere(observe, makers.front()))
      placed.setReadOnly(true);
  }

  /// The programs that make a value: several where its operation costs too little to send it.
  SmallVector<Unit> makersOf(Value value) const {
    Operation *maker = value.getDefiningOp();
    if (auto own = maker ? unitOf(maker) : std::nullopt)
      return {*own};
    SmallVector<Unit> found;
    for (auto &[own, built] : units)
      if (built.clones.contains(maker))
        found.push_back(own);
    return found;
  }

  /// True if an operation of another stage, before the observe, reads the value: it would get the edited one.
  bool isReadBeforeElsewhere(ObserveOp observe, Unit own) const {
    return llvm::any_of(observe.getValue().getUsers(), [&](Operation *user) {
      Operation *here = block.findAncestorOpInBlock(*user);
      return !isa<ObserveOp>(here) && here->isBeforeInBlock(observe) && unitOf(here) != own;
    });
  }

  /// Programs in the order in which values flow: forward from the first stage to the last, backward from the
  /// last to the first.
  SmallVector<Unit> order() const {
    SmallVector<Unit> ordered;
    for (auto &[own, _] : units)
      ordered.push_back(own);
    llvm::sort(ordered, [](Unit a, Unit b) {
      auto key = [](Unit own) {
        return std::pair(own.phase, own.phase == Phase::BackwardInput ? -own.stage : own.stage);
      };
      return key(a) < key(b);
    });
    return ordered;
  }

  /// Puts the updates of states behind all uses of their values, which the states can then take without a
  /// copy.
  static void updateLast(YieldOp yield) {
    for (WriteStateOp update : llvm::to_vector(yield->getBlock()->getOps<WriteStateOp>())) {
      for (Operation *user : update.getValue().getUsers())
        if (auto observe = dyn_cast<ObserveOp>(user); observe && update->isBeforeInBlock(observe))
          observe.setReadOnly(true);
      update->moveBefore(yield);
    }
  }

  void replaceBody() {
    Operation *terminator = block.getTerminator();
    OpBuilder b(terminator);
    // By program and value of the old body: the result of its stage.
    std::map<Unit, IRMapping> results;
    for (Unit own : order()) {
      UnitUnderConstruction &built = units.at(own);
      SmallVector<Value> inputs;
      for (Value input : built.inputs) {
        const auto &givers = makers[input];
        auto giver = givers.find(own);
        inputs.push_back(giver == givers.end() ? input : results[giver->second].lookup(input));
      }
      SmallVector<Type> types;
      SmallVector<Value> yielded;
      for (Value output : built.outputs) {
        types.push_back(output.getType());
        yielded.push_back(built.inside.lookup(output));
      }
      auto op = b.create<StageOp>(terminator->getLoc(), types, own.stage, inputs, own.phase);
      op.getBody().takeBody(built.body);
      auto yield =
          OpBuilder::atBlockEnd(&op.getBody().front()).create<YieldOp>(terminator->getLoc(), yielded);
      updateLast(yield);
      results[own].map(ArrayRef<Value>(built.outputs.getArrayRef()), op.getResults());
    }
    for (OpOperand &operand : terminator->getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      const Unit giver = (maker ? unitOf(maker) : std::nullopt).value_or(Unit{count - 1, Phase::Forward});
      operand.set(results[giver].lookup(operand.get()));
    }
    SmallVector<Operation *> replaced;
    for (Operation &op : block.without_terminator())
      if (!isa<StageOp>(op))
        replaced.push_back(&op);
    // Users first.
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

  Block &block;
  const int64_t count;
  /// A map, so that regions keep their addresses.
  std::map<Unit, UnitUnderConstruction> units;
  /// By value and program that takes it: the program that gives it; none for arguments of the function.
  llvm::DenseMap<Value, std::map<Unit, Unit>> makers;
};

struct SplitStages : impl::SplitStagesBase<SplitStages> {
  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    // A function of several may have no operation in the last stages.
    auto cut = decisionOf<CutAttr>(getOperation());
    int64_t last = cut ? cut.getSeconds().size() - 1 : -1;
    for (Operation &op : block) {
      auto stage = stageIndexOf(&op);
      if (stage && (*stage < 0 || *stage >= kMaxStages)) {
        op.emitError() << "found stage " << *stage << ", expected 0 to " << kMaxStages - 1;
        return signalPassFailure();
      }
      last = std::max(last, stage.value_or(-1));
    }
    if (last >= 0 && failed(StageSplitter(block, last + 1).run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
