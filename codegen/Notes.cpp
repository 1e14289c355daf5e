//===- Notes.cpp - Notes of a plan for its reader -------------------------===//
#include "codegen/Notes.h"
#include "codegen/plan/OperatorName.h"
#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/autograd/Recompute.h"
#include "ir/semantics/OpSemantics.h"
#include "partitioner/graph/LimitRange.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace cleave {

static std::string sizeText(int64_t bytes) {
  return bytes < 100'000 ? llvm::formatv("{0:f1} kB", bytes / 1e3).str()
                         : llvm::formatv("{0:f1} MB", bytes / 1e6).str();
}

static std::string timeText(double seconds) {
  return seconds < 1e-3 ? llvm::formatv("{0:f1} us", seconds * 1e6).str()
                        : llvm::formatv("{0:f2} ms", seconds * 1e3).str();
}

/// Calls `visit` for every operator below `op`.
static void forEachCall(Operation *op, llvm::function_ref<void(OperatorOp)> visit) {
  op->walk([&](OperatorOp call) { visit(call); });
}

/// Collects module paths of a stage's calls, and of all modules around them.
static void collectModules(StageOp stage, llvm::SetVector<StringRef> &modules) {
  forEachCall(stage, [&](OperatorOp call) {
    for (StringRef path = modulePath(call); !path.empty();
         path = path.contains('.') ? path.rsplit('.').first : StringRef())
      modules.insert(path);
  });
}

std::vector<std::string> topModules(StageOp stage) {
  llvm::SetVector<StringRef> own, foreign;
  collectModules(stage, own);
  for (auto other : stage->getBlock()->getOps<StageOp>())
    if (other != stage)
      collectModules(other, foreign);
  std::vector<std::string> top;
  auto isTop = [&](StringRef path) {
    return !foreign.contains(path) || llvm::none_of(own, [&](StringRef inner) {
      return inner.size() > path.size() && inner.starts_with(path) && inner[path.size()] == '.';
    });
  };
  for (StringRef path : own) {
    StringRef parent = path.contains('.') ? path.rsplit('.').first : StringRef();
    if (isTop(path) && (parent.empty() || !isTop(parent)))
      top.push_back(path.str());
  }
  // A depth-first walk meets inner modules first; readers want program order.
  llvm::DenseMap<StringRef, size_t> first;
  size_t order = 0;
  forEachCall(stage, [&](OperatorOp call) {
    for (StringRef path = modulePath(call); !path.empty();
         path = path.contains('.') ? path.rsplit('.').first : StringRef())
      first.try_emplace(path, order);
    ++order;
  });
  llvm::stable_sort(top, [&](auto &a, auto &b) { return first.lookup(a) < first.lookup(b); });
  return top;
}

static plan::Note makeNote(StringRef kind, StringRef path, StringRef op, std::string text) {
  plan::Note note;
  note.kind = kind.str();
  note.module_path = path.str();
  note.op = op.str();
  note.text = std::move(text);
  return note;
}

static void noteSharedWeights(func::FuncOp function, std::vector<plan::Note> &notes) {
  ExampleShapes shapes(function);
  // By weight: one of its uses in each stage.
  llvm::MapVector<StringRef, SmallVector<ParamOp>> uses;
  auto stageOf = [](ParamOp param) { return param->getParentOfType<StageOp>().getIndex(); };
  function.walk([&](ParamOp param) {
    auto &known = uses[param.getName()];
    if (llvm::none_of(known, [&](ParamOp other) { return stageOf(other) == stageOf(param); }))
      known.push_back(param);
  });
  for (auto &[name, params] : uses) {
    int64_t bytes = shapes.bytesOf(params.front());
    // Small tables and constants of the program are copied without a note.
    if (params.size() < 2 || params.front().getRole() != "parameter")
      continue;
    std::string stages, names = name.str();
    for (ParamOp param : params)
      stages += (stages.empty() ? "" : ", ") + std::to_string(stageOf(param));
    if (params.front().getAliases())
      for (StringRef alias : params.front().getAliases()->getAsValueRange<StringAttr>())
        names += " = " + alias.str();
    notes.push_back(makeNote("tied-weight", name, "",
                             llvm::formatv("{0} ({1}) is used in stages {2}; each has a copy of its own",
                                           names, sizeText(bytes), stages)));
  }
}

/// True if cuts were refused because their weights exceed a device's memory.
static bool refusesCuts(CutAttr cut) {
  const DenseI64ArrayAttr limits = cut.getWeightLimitRange();
  return limits && limits[1] != LimitRange::kNoLimit;
}

/// Notes how far the cut is from the optimum.
static void noteCut(func::FuncOp function, std::vector<plan::Note> &notes) {
  auto cut = decisionOf<CutAttr>(function);
  if (!cut || !cut.getBound() || !cut.getProof() || cut.getSeconds().size() < 2)
    return;
  const double slowest = *llvm::max_element(cut.getSeconds().asArrayRef());
  const double least = std::min(cut.getBound()[0], slowest);
  std::string best = "none";
  if (least < slowest)
    best = llvm::formatv("none below {0}, {1:f1} % less,", timeText(least), 100 * (1 - least / slowest));
  notes.push_back(makeNote(
      "balance", "", "",
      llvm::formatv("the slowest stage is predicted to take {0}; of all contiguous cuts{1} {2} is faster "
                    "({3})",
                    timeText(slowest), refusesCuts(cut) ? " whose weights fit the memory left for them" : "",
                    best, cut.getProof().getValue())));
}

static void noteBalance(func::FuncOp function, std::vector<plan::Note> &notes) {
  auto cut = decisionOf<CutAttr>(function);
  const StringAttr bottleneck = cut ? cut.getBottleneck() : StringAttr();
  if (!bottleneck)
    return;
  auto [op, path] = bottleneck.getValue().split(" at ");
  notes.push_back(
      makeNote("balance", path, op,
               llvm::formatv("{0} alone takes longer than a balanced stage would; no cut between operations "
                             "is more balanced, only splitting it over devices",
                             bottleneck.getValue())));
}

static void noteBatch(func::FuncOp function, std::vector<plan::Note> &notes) {
  if (auto schedule = decisionOf<ScheduleAttr>(function); schedule && schedule.getBatchObstacle())
    notes.push_back(
        makeNote("batch", "", "", "the batch is not split: " + schedule.getBatchObstacle().str()));
}

/// Terms of the loss that micro-batches do not add up to those of the batch.
static void noteLoss(func::FuncOp function, std::vector<plan::Note> &notes) {
  auto terms = function->getAttrOfType<ArrayAttr>(kInexactLossAttr);
  if (!terms)
    return;
  for (StringRef term : terms.getAsValueRange<StringAttr>())
    notes.push_back(makeNote("loss", "", "",
                             llvm::formatv("{0}: terms of the loss that depend on it are means over the "
                                           "micro-batches, which differ from those of the whole batch",
                                           term)));
}

static std::string placeOf(Operation *op) {
  StringRef path = modulePath(op);
  return path.empty() ? "the model itself" : path.str();
}

/// Operators that run only if the user who runs the plan allows them. Operators of other packages are allowed
/// by naming the package's library.
static void noteUnlisted(func::FuncOp function, std::vector<plan::Note> &notes) {
  llvm::MapVector<StringRef, OperatorOp> unlisted;
  forEachCall(function, [&](OperatorOp call) {
    const std::string &name = call.getSchema().torchName;
    if (plan::isOfListedNamespace(name) && !plan::isOperatorListed(name))
      unlisted.insert({name, call});
  });
  for (auto &[name, call] : unlisted)
    notes.push_back(makeNote(
        "unlisted-operator", modulePath(call), call->getName().getStringRef(),
        llvm::formatv("{0} in {1} is not on the list of operators that any plan may call; run and verify "
                      "this plan with --allow-operator {0}",
                      name, placeOf(call))));
}

static bool hasGradients(func::FuncOp function) {
  return llvm::any_of(llvm::seq(function.getNumResults()),
                      [&](unsigned i) { return function.getResultAttr(i, kLossAttr) != nullptr; });
}

/// One note per operator kind, with its first location and the number of calls.
static void noteKinds(func::FuncOp function, const InferredValues &inferred, std::vector<plan::Note> &notes) {
  llvm::MapVector<StringRef, std::pair<OperatorOp, unsigned>> unknown;
  forEachCall(function, [&](OperatorOp call) {
    // Of functions with gradients, the split of the batch is decided before these are there.
    if (!semanticsOf(call.getName()).isKnown && !hasGradients(function))
      ++unknown.insert({call.getName(), {call, 0}}).first->second.second;
  });
  for (auto &[name, use] : unknown)
    notes.push_back(makeNote(
        "no-semantics", modulePath(use.first), name,
        llvm::formatv("{0} has no entry in the op-semantics table; every tensor-parallel rank computes it in "
                      "full, and a "
                      "batch that it uses is not split: in {1}{2}",
                      name, placeOf(use.first),
                      use.second == 1 ? "" : llvm::formatv(" and {0} more times", use.second - 1).str())));
  const ExampleShapes shapes(function);
  llvm::MapVector<StringAttr, std::pair<VjpOp, unsigned>> rerun;
  function->walk([&](VjpOp op) { ++rerun.insert({op.getReasonAttr(), {op, 0}}).first->second.second; });
  for (auto &[reason, use] : rerun)
    notes.push_back(makeNote(
        "autograd", modulePath(use.first), "cleave.vjp",
        llvm::formatv(
            "gradients in {0}{1} come from PyTorch's autograd, which runs operations a second time{2} ({3})",
            placeOf(use.first),
            use.second == 1 ? "" : llvm::formatv(" and {0} more times", use.second - 1).str(),
            autogradBytesOf(use.first, shapes) ? "" : " and whose memory is not predicted",
            reason ? reason.getValue() : "as the model asks")));
  llvm::MapVector<StringRef, OperatorOp> random;
  forEachCall(function, [&](OperatorOp call) {
    if (isRandom(call) || semanticsOf(call.getName()).drawsByKey)
      random.insert({call.getName(), call});
  });
  for (auto &[name, call] : random)
    notes.push_back(makeNote(
        "random", modulePath(call), name,
        hasGradients(function)
            ? llvm::formatv("{0} in {1} draws random numbers, other ones than PyTorch; of train, each "
                            "--seed gives its own",
                            name, placeOf(call))
                  .str()
            : llvm::formatv("{0} in {1} draws random numbers: every run gives others, and none gives "
                            "what the original does",
                            name, placeOf(call))
                  .str()));
  if (auto choices = function->getAttrOfType<ArrayAttr>(kNotRecomputedAttr))
    for (auto choice : choices.getAsRange<StringAttr>())
      notes.push_back(makeNote("recompute", "", choice.getValue(),
                               llvm::formatv("--recompute {0}: nothing is recomputed, as the backward pass "
                                             "needs nothing that this selects",
                                             choice.getValue())));
  noteUnlisted(function, notes);
  llvm::SetVector<StringRef> kinds;
  for (auto &[op, reason, alwaysFails] : inferred.unknown)
    if (alwaysFails)
      notes.push_back(
          makeNote("fails", modulePath(op), op->getName().getStringRef(),
                   llvm::formatv("{0} in {1} fails at the traced sizes, whatever the inputs hold ({2}); a "
                                 "request that comes there ends with that error",
                                 op->getName().getStringRef(), placeOf(op), reason)));
    else if (kinds.insert(op->getName().getStringRef()))
      notes.push_back(
          makeNote("unknown-type", modulePath(op), op->getName().getStringRef(),
                   llvm::formatv("the type of {0} in {1} is only known when running ({2}); its cost and "
                                 "memory are not predicted",
                                 op->getName().getStringRef(), placeOf(op), reason)));
}

/// Weights that all tensor-parallel ranks hold whole, by the first operator that uses them.
static void noteReplicated(func::FuncOp function, std::vector<plan::Note> &notes) {
  if (tensorParallelSizeOf(function) < 2)
    return;
  ExampleShapes shapes(function);
  function.walk([&](ParamOp param) {
    auto sharding = decisionOf<WeightShardingAttr>(param);
    const StringAttr style = sharding ? sharding.getStyle() : StringAttr();
    auto type = dyn_cast<RankedTensorType>(param.getType());
    bool isMatrix = param.getRole() == "parameter" && type && type.getRank() > 1;
    if (param->use_empty() || (sharding && sharding.getUserConstraint()) ||
        (style ? style != "replicate" : !isMatrix || param.getShard()))
      return;
    Operation *user = *param->user_begin();
    while (isa<ListOp>(user) && !user->use_empty())
      user = *user->user_begin();
    const std::string reason =
        sharding && sharding.getNotWorthSharding()
            ? "there is room for it, and splitting it would cost more time than it saves; --shard splits it"
            : (user->getName().getStringRef() + " has no part of it to do").str();
    notes.push_back(makeNote("replicated", modulePath(param), user->getName().getStringRef(),
                             llvm::formatv("{0} ({1}) is whole on every tensor-parallel rank: {2}",
                                           param.getName(), sizeText(shapes.bytesOf(param)), reason)));
  });
}

static void noteCommunication(func::FuncOp function, std::vector<plan::Note> &notes) {
  auto decision = decisionOf<ShardingDecisionAttr>(function);
  if (!decision || decision.getSeconds()[0] <= 0)
    return;
  const double seconds = decision.getSeconds()[0], least = std::min(decision.getSeconds()[1], seconds);
  // Sums in another order differ in the last digits.
  bool isBest = least >= seconds * (1 - 1e-9);
  notes.push_back(
      makeNote("communication", "", "",
               llvm::formatv("collectives between tensor-parallel ranks are predicted to take {0} at the "
                             "traced sizes, before sums are "
                             "merged; {1}",
                             timeText(seconds),
                             isBest ? std::string("by the bound no other split of these weights takes less")
                                    : "the bound for splitting these weights is " + timeText(least))));
}

static void noteStates(func::FuncOp function, std::vector<plan::Note> &notes) {
  function.walk([&](ReadStateOp state) {
    if (isa<UnknownTensorType>(state.getType()))
      notes.push_back(
          makeNote("unknown-type", modulePath(state), state->getName().getStringRef(),
                   llvm::formatv("the shape of state {0} may change from call to call; cost and memory of "
                                 "what is made of it are not predicted",
                                 state.getName())));
  });
}

static void noteLimits(func::FuncOp function, std::vector<plan::Note> &notes) {
  auto limits = limitsOf(function);
  SmallVector<StringRef> names(limits.keys());
  llvm::sort(names);
  for (StringRef name : names) {
    SizeLimits limit = limits.lookup(name);
    if (limit.divisibleBy > 1)
      notes.push_back(
          makeNote("multiple", "", "",
                   llvm::formatv("{0} must be a multiple of {1}: the TorchScript model runs at no other size",
                                 name, limit.divisibleBy)));
    auto noteRange = [&](StringRef end, int64_t size, int64_t next) {
      notes.push_back(
          makeNote("range", "", "",
                   llvm::formatv("{0} was tried {1} {2}: with the other sizes as traced, the TorchScript "
                                 "model fails at {3}",
                                 name, end, size, next)));
    };
    if (limit.min > 1)
      noteRange("from", limit.min, limit.min - limit.divisibleBy);
    if (limit.max != SizeLimits().max)
      noteRange("up to", limit.max, limit.max + limit.divisibleBy);
  }
}

std::vector<plan::Note> notesOf(func::FuncOp function, const InferredValues &inferred) {
  std::vector<plan::Note> notes;
  noteLimits(function, notes);
  noteSharedWeights(function, notes);
  noteCut(function, notes);
  noteBalance(function, notes);
  noteBatch(function, notes);
  noteLoss(function, notes);
  noteKinds(function, inferred, notes);
  noteStates(function, notes);
  noteReplicated(function, notes);
  noteCommunication(function, notes);
  // Several calls may have the same to say of one weight.
  llvm::StringSet<> texts;
  llvm::erase_if(notes, [&](const plan::Note &note) { return !texts.insert(note.text).second; });
  return notes;
}

} // namespace cleave
