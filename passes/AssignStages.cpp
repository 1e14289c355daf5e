//===- AssignStages.cpp - Marks operations with their stage ---------------===//
#include "ir/ParkedObserves.h"
#include "partitioner/cost/ModelGraph.h"
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "partitioner/cutting/StageCutter.h"
#include "partitioner/cutting/StageStarts.h"
#include "partitioner/cutting/TrainingStages.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/sharding/Sharding.h"
#include "passes/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/Passes.h.inc"

namespace {
struct AssignStages : impl::AssignStagesBase<AssignStages> {
  using AssignStagesBase::AssignStagesBase;

  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    auto merged = MergedSignatures::of(getOperation());
    if (failed(merged))
      return signalPassFailure();
    if (!*merged)
      return;
    func::FuncOp function = (*merged)->get();
    auto target = machine.empty() ? llvm::Expected<Machine>(Machine::cpu(stages)) : Machine::load(machine);
    if (!target)
      return fail(llvm::toString(target.takeError()));
    const uint32_t tensorParallelSize = tensorParallelSizeOf(function);
    if (dp == 0 || dp > kMaxRanks)
      return fail(("found dp=" + Twine(dp) + ", expected 1 to " + Twine(kMaxRanks)).str());
    std::optional<TrainingStages> training = stages > 1 ? TrainingStages::of(function) : std::nullopt;
    const PipelineDeviceGroups places(*target, ranks ? ranks : stages, tensorParallelSize * dp,
                                      tensorParallelSize);
    ModelGraph model =
        buildModelGraph(training ? training->forwardFunction() : function, places.kinds, stages);
    if (training)
      priceBackward(model, *training, ExampleShapes(function), places);
    CutRequest request;
    request.stages = places.stageDevices(stages);
    request.stagesPerRank = ranks ? std::max<uint32_t>(stages / ranks, 1) : 1;
    for (StageDevice &stage : request.stages)
      if (memory > 0)
        stage.weightLimit = memory;
    if (!weightLimits.empty() && weightLimits.size() != stages)
      return fail(
          llvm::formatv("found {0} weight limits, expected {1}, one a stage", weightLimits.size(), stages)
              .str());
    for (auto [stage, limit] : llvm::zip(request.stages, weightLimits))
      stage.weightLimit = limit;
    if (auto error = stageStartsOf(model, *stageBefore).moveInto(request.stageStarts))
      return fail(llvm::toString(std::move(error)));
    request.limits = steps > 0 ? SearchLimits{request.limits.downsets, uint64_t(steps)} : kProgramOrder;
    auto cut = cutStages(model.graph, request);
    if (!cut)
      return fail(llvm::toString(cut.takeError()) + describeStates(model));
    std::string proof = cut->describe(request.limits);
    if (!knowsLinks(places, request.stages))
      proof = leaveOutReceives(model.graph, *cut) ? "exact: meets the lower bound"
                                                  : "not proven: links between stages differ";
    mark(**merged, model, *cut, training);
    if (signatureCountOf(function) == 1)
      return report(function, *cut, model, proof);
    for (auto [index, own] : llvm::enumerate((*merged)->getFunctions()))
      report(own, cutOf(function, index, places, request, model, *cut), model, /*proof=*/"");
  }

  /// The cut as one of several functions sees it.
  static StageCut cutOf(func::FuncOp merged, unsigned signature, const PipelineDeviceGroups &places,
                        const CutRequest &request, const ModelGraph &model, const StageCut &cut) {
    const ExampleShapes shapes(merged);
    auto secondsOf = [&](Operation *op, uint32_t kind) {
      return signatureIndexOf(op) == signature
                 ? operationSeconds(op, shapes, places.kinds[kind]) / frequencyOf(op)
                 : 0;
    };
    StageGraph own = model.pricedBy(secondsOf, [&](Value value) { return bytesSent(value, shapes); });
    std::vector<StageGraph::Value> values;
    for (auto [value, source] : llvm::zip(own.values, model.values))
      if (signatureIndexOf(source.getDefiningOp()) == signature)
        values.push_back(value);
    own.values = std::move(values);
    StageCut result = describeCut(own, request, cut.stageOf);
    result.weightLimitRange = cut.weightLimitRange;
    return result;
  }

  /// True if each stage receives from all earlier ones over equal links, as the cutter assumes.
  static bool knowsLinks(const PipelineDeviceGroups &places, ArrayRef<StageDevice> stages) {
    for (uint32_t to = 0; to < stages.size(); ++to)
      for (uint32_t from = 0; from < to; ++from) {
        const uint32_t sender = from % places.ranks.size(), receiver = to % places.ranks.size();
        if (sender != receiver && places.linkBetween(sender, receiver) != stages[to].link)
          return false;
      }
    return true;
  }

  /// Bounds all cuts by their work only, each operation on its fastest device. True if the cut meets the
  /// bound.
  static bool leaveOutReceives(const StageGraph &graph, StageCut &cut) {
    double most = 0, sum = 0;
    for (const StageGraph::Node &node : graph.nodes) {
      most = std::max(most, node.minSeconds());
      sum += node.minSeconds();
    }
    cut.lowerBound = std::max(most, sum / double(cut.seconds.size()));
    return cut.slowest() <= cut.lowerBound;
  }

  /// The state that keeps most operations together, for the message about a cut that fails; empty if there is
  /// none.
  static std::string describeStates(const ModelGraph &model) {
    WriteStateOp worst;
    size_t most = 0;
    for (auto &ops : model.nodes)
      for (Operation *op : ops)
        if (auto update = dyn_cast<WriteStateOp>(op); update && ops.size() > most) {
          worst = update;
          most = ops.size();
        }
    return worst ? ("; state " + worst.getName() + " keeps " + Twine(most) + " operations in one stage").str()
                 : "";
  }

  void fail(StringRef message) {
    (*getOperation().getOps<func::FuncOp>().begin()).emitError() << message;
    signalPassFailure();
  }

  /// Adds the backward pass of each operation, and the gradient of each value, which is sent back.
  static void priceBackward(ModelGraph &model, const TrainingStages &training, const ExampleShapes &shapes,
                            const PipelineDeviceGroups &places) {
    auto secondsOf = [&](Operation *op, uint32_t kind) {
      double seconds = operationSeconds(training.originalOf(op), shapes, places.kinds[kind]);
      for (Operation *backward : training.backwardOf(op))
        seconds += operationSeconds(backward, shapes, places.kinds[kind]);
      return seconds;
    };
    auto bytesOf = [&](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      return bytesSent(value, shapes) * (type && isa<FloatType>(type.getElementType()) ? 2 : 1);
    };
    model.graph = model.pricedBy(secondsOf, bytesOf);
  }

  /// Writes the stage of each operation.
  static void mark(MergedSignatures &merged, const ModelGraph &model, const StageCut &cut,
                   std::optional<TrainingStages> &training) {
    Builder b(merged.get().getContext());
    merged.get().walk([](Operation *op) { op->removeDiscardableAttr(kStageIndexAttr); });
    for (auto [ops, stage] : llvm::zip(model.nodes, cut.stageOf))
      for (Operation *op : ops)
        (training ? training->originalOf(op) : op)->setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage));
    if (training)
      training->assignBackward();
    merged.copyBack();
  }

  /// \param proof  empty if nothing was proven of the function's own cut.
  static void report(func::FuncOp function, const StageCut &cut, const ModelGraph &model, StringRef proof) {
    Builder b(function.getContext());
    StringAttr bottleneck;
    if (cut.bottleneck)
      bottleneck = b.getStringAttr(model.graph.nodes[*cut.bottleneck].label);
    setDecision<CutAttr>(
        function,
        CutAttr::get(b.getContext(), b.getDenseF64ArrayAttr(cut.seconds),
                     b.getDenseI64ArrayAttr(cut.recvBytes),
                     proof.empty() ? DenseF64ArrayAttr() : b.getDenseF64ArrayAttr(cut.lowerBound),
                     proof.empty() ? StringAttr() : b.getStringAttr(proof), bottleneck,
                     b.getDenseI64ArrayAttr({cut.weightLimitRange.least, cut.weightLimitRange.tooLarge})));
  }
};
} // namespace

} // namespace cleave
