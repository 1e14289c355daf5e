//===- AnnotateSharding.cpp - Decides which weights are sharded -----------===//
#include "ir/NearestName.h"
#include "ir/ParkedObserves.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/search/ShardingSearch.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ANNOTATESHARDING
#include "passes/Passes.h.inc"

namespace {
struct AnnotateSharding : impl::AnnotateShardingBase<AnnotateSharding> {
  using AnnotateShardingBase::AnnotateShardingBase;

  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    if (tp < 2)
      return;
    auto merged = MergedSignatures::of(getOperation());
    if (failed(merged))
      return signalPassFailure();
    if (!*merged)
      return;
    func::FuncOp function = (*merged)->get();
    auto target = machine.empty() ? llvm::Expected<Machine>(Machine::cpu(tp)) : Machine::load(machine);
    if (!target)
      return fail(llvm::toString(target.takeError()));
    WalkResult draws = function.walk([&](OperatorOp op) {
      if (!isRandom(op) || op->getParentOp() == function)
        return WalkResult::advance();
      op->emitError()
          << op.getName()
          << " draws random numbers inside control flow, others on each tensor-parallel rank; use "
          << "pipeline stages alone (--mesh pp=N)";
      return WalkResult::interrupt();
    });
    if (draws.wasInterrupted())
      return signalPassFailure();
    const uint32_t used = devices > 0 ? devices : target->devices.size(), groups = std::max(used / tp, 1u);
    ShardingRequest request{tp, DeviceGroup::of(*target, 0, groups * tp, tp), {}, std::nullopt};
    if (memory > 0)
      request.memoryLimit = memory;
    for (const std::string &text : shard) {
      auto [pattern, word] = StringRef(text).rsplit('=');
      auto style = parseShardingStyle(word);
      if (!style)
        return fail("--shard " + text + ": " + toString(style.takeError()));
      request.constraints.push_back({pattern.str(), *style});
    }
    ShardingDecision decision = decideSharding(function, request);
    if (!decision.unmatchedPatterns.empty())
      return fail("--shard " + decision.unmatchedPatterns.front() +
                  ": matches no weight of a linear layer, convolution or embedding" +
                  suggestName(decision.unmatchedPatterns.front(), decision));
    for (WeightDecision weight : decision.weights)
      if (weight.asked && *weight.asked != weight.style)
        return fail("--shard: " + weight.weight.getName().str() + " cannot be " +
                    wordOf(*weight.asked).str() + " over tp=" + std::to_string(tp) +
                    ": nothing of it is split so, or what uses it is split in another " +
                    "way; give another style, or replicate");
    if (failed(checkSplits(function, decision)))
      return signalPassFailure();
    write(**merged, decision);
  }

  /// Fails if the ranks are more than any of the weights can be split over, so that each would hold all of
  /// them.
  LogicalResult checkSplits(func::FuncOp function, const ShardingDecision &decision) {
    auto isSplit = [](const WeightDecision &weight) { return weight.seed >= 0; };
    if (decision.weights.empty() || llvm::any_of(decision.weights, isSplit))
      return success();
    const int64_t most = mostRanksOf(function, decision.weights), wanted = tp;
    if (most >= wanted)
      return success();
    return function.emitError() << "--mesh tp=" << wanted << ": found no weight that " << wanted
                                << " ranks can split, expected at most " << most
                                << "; use fewer tensor-parallel ranks, or pipeline stages (--mesh pp=N)";
  }

  void fail(const std::string &message) {
    (*getOperation().getOps<func::FuncOp>().begin()).emitError() << message;
    signalPassFailure();
  }

  static std::vector<std::string> names(const ShardingDecision &decision) {
    std::vector<std::string> all;
    for (WeightDecision weight : decision.weights) {
      all.push_back(weight.weight.getName().str());
      all.push_back(weight.weight.getName().rsplit('.').first.str());
    }
    return all;
  }

  /// The nearest name, else a list of names: `; there are h.0.mlp.c_fc.weight, … and 3 others`.
  static std::string suggestName(StringRef wanted, const ShardingDecision &decision) {
    constexpr size_t kShown = 4;
    if (std::string meant = didYouMean(wanted, names(decision)); !meant.empty() || decision.weights.empty())
      return meant;
    std::vector<std::string> shown;
    for (WeightDecision weight : ArrayRef(decision.weights).take_front(kShown))
      shown.push_back(weight.weight.getName().str());
    const size_t others = decision.weights.size() - shown.size();
    return "; there are " + llvm::join(shown, ", ") +
           (others ? " and " + std::to_string(others) + " more" : "");
  }

  void write(MergedSignatures &merged, const ShardingDecision &decision) {
    Builder b(&getContext());
    for (func::FuncOp function : merged.getFunctions())
      function->setAttr(kTensorParallelSizeAttr, b.getI64IntegerAttr(tp));
    llvm::DenseMap<Operation *, SeedAttr> seeds;
    for (auto [order, seed] : llvm::enumerate(decision.seeds))
      seeds[ParamOp(seed.weight)] = SeedAttr::get(&getContext(), seed.dim, order, seed.weightOnly);
    for (const WeightDecision &weight : decision.weights)
      setDecision(ParamOp(weight.weight),
                  WeightShardingAttr::get(&getContext(), b.getStringAttr(wordOf(weight.style)),
                                          seeds.lookup(ParamOp(weight.weight)), weight.asked.has_value(),
                                          weight.isNotWorthSharding && weight.seed < 0));
    SmallVector<Attribute> groups;
    for (const ShardingGroupSummary &group : decision.groups) {
      SmallVector<StringRef> weights(group.weights.begin(), group.weights.end());
      groups.push_back(ShardingGroupAttr::get(&getContext(), b.getStringAttr(group.path), group.parts,
                                              b.getStrArrayAttr(weights), group.sums, group.gathers));
    }
    DenseI64ArrayAttr limits;
    if (memory > 0)
      limits = b.getDenseI64ArrayAttr({decision.memoryLimitRange.least, decision.memoryLimitRange.tooLarge});
    merged.copyBack();
    setDecision<ShardingDecisionAttr>(
        merged.getFunctions().front(),
        ShardingDecisionAttr::get(&getContext(), b.getArrayAttr(groups),
                                  b.getDenseF64ArrayAttr({decision.seconds, decision.secondsLowerBound}),
                                  limits));
  }
};
} // namespace

} // namespace cleave
