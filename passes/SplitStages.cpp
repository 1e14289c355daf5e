//===- SplitStages.cpp - Operations into cleave.stage ---------------------===//
#include "mlir/IR/IRMapping.h"
#include "partitioner/cost/ModelGraph.h"
#include "partitioner/graph/UsedValues.h"
#include "passes/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SPLITSTAGES
#include "passes/Passes.h.inc"

/// The tools' limit of devices.
static constexpr int64_t kMaxStages = 65536;

namespace {
/// A stage while it is built.
struct StageUnderConstruction {
  Region body;
  IRMapping inside;
  /// Values from outside that the stage takes, and its own values that others take, in the order of the
  /// requests.
  SmallVector<Value> inputs;
  llvm::SetVector<Value> outputs;
};

/// Builds the stages of one function.
class StageSplitter {
public:
  StageSplitter(Block &block, int64_t count) : block(block), stages(count) {}

  LogicalResult run() {
    for (auto &stage : stages)
      stage.body.emplaceBlock();
    for (Operation &op : block.without_terminator())
      if (auto stage = stageOf(&op); stage && failed(cloneInto(&op, *stage)))
        return failure();
    if (failed(placeResults(block.getTerminator())))
      return failure();
    replaceBody();
    return success();
  }

  static std::optional<int64_t> stageOf(Operation *op) {
    auto attribute = op->getAttrOfType<IntegerAttr>(kStageIndexAttr);
    return attribute ? std::optional<int64_t>(attribute.getInt()) : std::nullopt;
  }

private:
  /// Makes `value` available in the stage: as an input, or by cloning the operation that makes it.
  LogicalResult require(Value value, int64_t stage, Operation *user) {
    StageUnderConstruction &target = stages[stage];
    if (target.inside.contains(value))
      return success();
    Operation *maker = value.getDefiningOp();
    auto from = maker ? stageOf(maker) : std::nullopt;
    if (maker && !from)
      return cloneInto(maker, stage);
    if (from && *from >= stage)
      return user->emitError() << "is in stage " << stage << " but uses a value of stage " << *from
                               << "; values only flow to later stages";
    if (from)
      stages[*from].outputs.insert(value);
    target.inputs.push_back(value);
    target.inside.map(value, target.body.front().addArgument(value.getType(), value.getLoc()));
    return success();
  }

  LogicalResult cloneInto(Operation *op, int64_t stage) {
    for (Value value : usedValues(op))
      if (failed(require(value, stage, op)))
        return failure();
    // The region has no parent yet and cannot name its context.
    OpBuilder b(op->getContext());
    b.setInsertionPointToEnd(&stages[stage].body.front());
    b.clone(*op, stages[stage].inside)->removeDiscardableAttr(kStageIndexAttr);
    return success();
  }

  /// Results that no stage makes (an input passed through, a constant) are made by the last stage.
  LogicalResult placeResults(Operation *terminator) {
    for (Value value : terminator->getOperands()) {
      Operation *maker = value.getDefiningOp();
      int64_t stage = maker && stageOf(maker) ? *stageOf(maker) : stages.size() - 1;
      if (failed(require(value, stage, terminator)))
        return failure();
      stages[stage].outputs.insert(value);
    }
    return success();
  }

  void replaceBody() {
    Operation *terminator = block.getTerminator();
    OpBuilder b(terminator);
    // Maps values of the old body to results of stages.
    IRMapping outside;
    for (auto [index, stage] : llvm::enumerate(stages)) {
      SmallVector<Value> inputs;
      for (Value input : stage.inputs)
        inputs.push_back(outside.lookupOrDefault(input));
      SmallVector<Type> types;
      SmallVector<Value> yielded;
      for (Value output : stage.outputs) {
        types.push_back(output.getType());
        yielded.push_back(stage.inside.lookup(output));
      }
      auto op = b.create<StageOp>(terminator->getLoc(), types, int64_t(index), inputs);
      op.getBody().takeBody(stage.body);
      OpBuilder::atBlockEnd(&op.getBody().front()).create<YieldOp>(terminator->getLoc(), yielded);
      outside.map(ArrayRef<Value>(stage.outputs.getArrayRef()), op.getResults());
    }
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(outside.lookupOrDefault(operand.get()));
    SmallVector<Operation *> replaced;
    for (Operation &op : block.without_terminator())
      if (!isa<StageOp>(op))
        replaced.push_back(&op);
    // Users first.
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

  Block &block;
  // A deque, so that regions keep their addresses.
  std::deque<StageUnderConstruction> stages;
};

struct SplitStages : impl::SplitStagesBase<SplitStages> {
  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    // A function of several may have no operation in the last stages.
    auto cut = decisionOf<CutAttr>(getOperation());
    int64_t last = cut ? cut.getSeconds().size() - 1 : -1;
    for (Operation &op : block) {
      auto stage = StageSplitter::stageOf(&op);
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
