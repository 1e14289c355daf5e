#include "RandomSharding.h"
#include "ir/Cleave.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

LogicalResult runPasses(ModuleOp module, StringRef passes) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  // The one of these passes that runs on modules.
  const std::string first = passes.consume_front("propagate-sharding,") ? "propagate-sharding," : "";
  auto parsed = parsePassPipeline(("builtin.module(" + first + "func.func(" + passes + "))").str());
  if (failed(parsed))
    return failure();
  static_cast<OpPassManager &>(manager) = std::move(*parsed);
  return manager.run(module);
}

void addRandomShardingSeeds(func::FuncOp function, Dice &dice, unsigned ranks) {
  Builder b(function.getContext());
  function->setAttr(kTensorParallelSizeAttr, b.getI64IntegerAttr(ranks));
  SmallVector<ParamOp> weights;
  for (auto param : function.getBody().front().getOps<ParamOp>())
    if (cast<RankedTensorType>(param.getType()).getRank())
      weights.push_back(param);
  for (unsigned order = 0, count = 1 + dice.below(4); order < count && !weights.empty(); ++order) {
    ParamOp weight = weights[dice.below(weights.size())];
    const int64_t dim = dice.below(cast<RankedTensorType>(weight.getType()).getRank());
    const bool weightOnly = dice.below(4) == 0;
    setDecision(weight, WeightShardingAttr::get(b.getContext(), /*style=*/nullptr,
                                                SeedAttr::get(b.getContext(), dim, order, weightOnly),
                                                /*user_constraint=*/false, /*not_worth_sharding=*/false));
  }
}

} // namespace cleave
