#include "TensorRanks.h"
#include "ir/Cleave.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

LogicalResult runPasses(ModuleOp module, StringRef passes) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  auto parsed = parsePassPipeline(("builtin.module(func.func(" + passes + "))").str());
  if (failed(parsed))
    return failure();
  static_cast<OpPassManager &>(manager) = std::move(*parsed);
  return manager.run(module);
}

void addSeeds(func::FuncOp function, Dice &dice, unsigned ranks) {
  Builder b(function.getContext());
  function->setAttr(kTensorRanksAttr, b.getI64IntegerAttr(ranks));
  SmallVector<ParamOp> weights;
  for (auto param : function.getBody().front().getOps<ParamOp>())
    if (cast<RankedTensorType>(param.getType()).getRank())
      weights.push_back(param);
  for (unsigned order = 0, count = 1 + dice.below(4); order < count && !weights.empty(); ++order) {
    ParamOp weight = weights[dice.below(weights.size())];
    weight->setAttr(kSplitAttr,
                    b.getI64IntegerAttr(dice.below(cast<RankedTensorType>(weight.getType()).getRank())));
    weight->setAttr(kSplitOrderAttr, b.getI64IntegerAttr(order));
    if (dice.below(4) == 0)
      weight->setAttr(kSplitCutAttr, b.getUnitAttr());
  }
}

} // namespace cleave
