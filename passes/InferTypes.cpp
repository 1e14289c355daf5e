//===- InferTypes.cpp - Gives tensors their types -------------------------===//
#include "ir/TracedShapes.h"
#include "ir/inference/ShapeInference.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_INFERTYPES
#include "passes/Passes.h.inc"

namespace {
struct InferTypes : impl::InferTypesBase<InferTypes> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto inferred = inferWithStates(function);
    if (failed(inferred))
      return signalPassFailure();
    for (auto &[value, type] : inferred->tensors)
      // Optional tensors keep saying that they may be absent.
      if (isa<UnknownTensorType, mlir::TensorType>(value.getType()) && !isa<BlockArgument>(value))
        Value(value).setType(type);
    setRegionArgumentTypes(function);
    setLimits(function, inferred->limits);
    auto results = function.getBody().front().getTerminator()->getOperandTypes();
    function.setType(FunctionType::get(&getContext(), function.getArgumentTypes(), results));
  }

  /// A state is taken to keep the type that it begins with. That holds where the function leaves such a
  /// value, given such values; of states for which it does not, nothing is known.
  static FailureOr<InferredValues> inferWithStates(func::FuncOp function) {
    while (true) {
      auto inferred = inferShapes(function);
      if (failed(inferred))
        return failure();
      bool isStable = true;
      function.walk([&](UpdateOp update) {
        Value state = update.getState();
        auto before = dyn_cast<RankedTensorType>(state.getType()),
             after = inferred->tensors.lookup(update.getValue());
        if (!before || (after && after.getShape() == before.getShape() &&
                        after.getElementType() == before.getElementType()))
          return;
        state.setType(UnknownTensorType::get(function.getContext()));
        isStable = false;
      });
      if (isStable)
        return inferred;
    }
  }

  /// Regions' arguments and results have the types of what flows into them.
  void setRegionArgumentTypes(func::FuncOp function) {
    function.walk<WalkOrder::PreOrder>([](StageOp stage) {
      for (auto [argument, input] : llvm::zip(stage.getBody().getArguments(), stage.getInputs()))
        argument.setType(input.getType());
    });
  }
};
} // namespace

} // namespace cleave
