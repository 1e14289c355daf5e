//===- AssignStages.cpp - Marks operations with their stage ---------------===//
#include "ir/NearestName.h"
#include "partitioner/ModelGraph.h"
#include "partitioner/Sharding.h"
#include "partitioner/StageCutter.h"
#include "passes/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/Passes.h.inc"

/// Whether `path` is the module `module`, or inside it, in any call of it.
static bool isInside(StringRef path, StringRef module) {
  return path.consume_front(module) && (path.empty() || path.front() == '.' || path.front() == '#');
}

namespace {
struct AssignStages : impl::AssignStagesBase<AssignStages> {
  using AssignStagesBase::AssignStagesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto target = machine.empty() ? llvm::Expected<Machine>(Machine::cpu(stages)) : Machine::load(machine);
    if (!target)
      return fail(llvm::toString(target.takeError()));
    ModelGraph model = buildModelGraph(function, *target, stages);
    CutRequest request;
    request.stages.assign(stages, {target->linkAmong((ranks ? ranks : stages) * tensorRanksOf(function))});
    if (failed(findStarts(model, request)))
      return signalPassFailure();
    auto cut = cutStages(model.graph, request);
    if (!cut)
      return fail(llvm::toString(cut.takeError()) + describeStates(model));
    write(function, model, *cut, cut->describe(request.limits));
  }

  /// The state that keeps most operations together, for a cut that fails; empty where none does.
  static std::string describeStates(const ModelGraph &model) {
    UpdateOp worst;
    size_t most = 0;
    for (auto &ops : model.nodes)
      for (Operation *op : ops)
        if (auto update = dyn_cast<UpdateOp>(op); update && ops.size() > most) {
          worst = update;
          most = ops.size();
        }
    return worst ? ("; state " + worst.getName() + " keeps " + Twine(most) + " operations in one stage").str()
                 : "";
  }

  void fail(StringRef message) {
    getOperation().emitError() << message;
    signalPassFailure();
  }

  LogicalResult findStarts(const ModelGraph &model, CutRequest &request) {
    for (const std::string &path : stageBefore) {
      auto first = llvm::find_if(model.nodes, [&](auto &ops) {
        return llvm::any_of(ops, [&](Operation *op) { return isInside(modulePath(op), path); });
      });
      if (first == model.nodes.end())
        return getOperation().emitError() << "--stage-before " << path << ": no module of this path does work"
                                          << suggestPath(model, path);
      if (first != model.nodes.begin())
        request.stageStarts.push_back(first - model.nodes.begin());
    }
    llvm::sort(request.stageStarts);
    request.stageStarts.erase(llvm::unique(request.stageStarts), request.stageStarts.end());
    return success();
  }

  /// The path that was probably meant, else what there is beside it: `; transformer has wte, wpe, h, ln_f`.
  static std::string suggestPath(const ModelGraph &model, StringRef wanted) {
    llvm::SetVector<StringRef> paths;
    for (auto &ops : model.nodes)
      for (Operation *op : ops)
        // The path and each module around it.
        for (StringRef path = modulePath(op).split('#').first; !path.empty(); path = parentOf(path))
          paths.insert(path);
    if (std::string meant =
            didYouMean(wanted, llvm::to_vector(llvm::map_range(paths, std::mem_fn(&StringRef::str))));
        !meant.empty())
      return meant;
    StringRef known = wanted;
    while (!known.empty() && !paths.contains(known))
      known = parentOf(known);
    std::vector<StringRef> inside;
    for (StringRef path : paths)
      if (parentOf(path) == known)
        inside.push_back(path.drop_front(known.empty() ? 0 : known.size() + 1));
    return ("; " + (known.empty() ? StringRef("the model") : known) + " has " + llvm::join(inside, ", "))
        .str();
  }

  static StringRef parentOf(StringRef path) { return path.contains('.') ? path.rsplit('.').first : ""; }

  static void write(func::FuncOp function, const ModelGraph &model, const StageCut &cut, StringRef proof) {
    Builder b(function.getContext());
    for (auto [ops, stage] : llvm::zip(model.nodes, cut.stageOf))
      for (Operation *op : ops)
        op->setAttr(kStageAttr, b.getI64IntegerAttr(stage));
    function->setAttr(kStageSecondsAttr, b.getF64ArrayAttr(cut.seconds));
    function->setAttr(kStageRecvBytesAttr, b.getI64ArrayAttr(cut.recvBytes));
    function->setAttr(kCutBoundAttr, b.getF64FloatAttr(cut.lowerBound));
    function->setAttr(kCutProofAttr, b.getStringAttr(proof));
    if (cut.bottleneck)
      function->setAttr(kBottleneckAttr, b.getStringAttr(model.graph.nodes[*cut.bottleneck].label));
  }
};
} // namespace

} // namespace cleave
