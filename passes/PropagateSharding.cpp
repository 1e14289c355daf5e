//===- PropagateSharding.cpp - From sharded weights to all tensors --------===//
#include "ir/ParkedObserves.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/search/ShardingSearch.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PROPAGATESHARDING
#include "passes/Passes.h.inc"

static std::vector<ShardingSeed> seedsOf(func::FuncOp function) {
  std::vector<std::pair<int64_t, ShardingSeed>> found;
  for (auto param : function.getBody().front().getOps<ParamOp>())
    if (auto sharding = decisionOf<WeightShardingAttr>(param); sharding && sharding.getSeed()) {
      const SeedAttr seed = sharding.getSeed();
      found.push_back({seed.getOrder(), {param, unsigned(seed.getDim()), seed.getWeightOnly()}});
    }
  llvm::stable_sort(found, [](auto &left, auto &right) { return left.first < right.first; });
  std::vector<ShardingSeed> seeds;
  for (auto &[order, seed] : found)
    seeds.push_back(seed);
  return seeds;
}

namespace {
struct PropagateSharding : impl::PropagateShardingBase<PropagateSharding> {
  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(checkShardings(function)))
        return signalPassFailure();
    auto merged = MergedSignatures::of(getOperation());
    if (failed(merged))
      return signalPassFailure();
    if (!*merged)
      return;
    func::FuncOp function = (*merged)->get();
    unsigned ranks = tensorParallelSizeOf(function);
    if (ranks < 2)
      return;
    AnalyzedFunction analyzed(function);
    Shardings shardings(analyzed, ranks);
    for (const ShardingSeed &seed : seedsOf(function)) {
      auto type = dyn_cast<RankedTensorType>(ParamOp(seed.weight).getType());
      if (!type || seed.dim >= type.getRank()) {
        ParamOp(seed.weight).emitError() << "has no dimension " << seed.dim << " to split";
        return signalPassFailure();
      }
      shardings.add(shardings.shardingGroupOf(seed));
    }
    for (auto &[tensor, sharding] : shardings.all())
      setSharding(tensor, sharding);
    (*merged)->copyBack();
  }
};
} // namespace

} // namespace cleave
