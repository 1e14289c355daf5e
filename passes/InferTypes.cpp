//===- InferTypes.cpp - Gives tensors their types -------------------------===//
#include "ir/TensorSizes.h"
#include "ir/TracedShapes.h"
#include "ir/inference/ShapeInference.h"
#include "passes/Passes.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_INFERTYPES
#include "passes/Passes.h.inc"

namespace {
struct InferTypes : impl::InferTypesBase<InferTypes> {
  using InferTypesBase::InferTypesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto inferred = inferWithStates(function);
    if (failed(inferred) || (check && failed(checkStated(function, *inferred))))
      return signalPassFailure();
    for (auto &[value, type] : inferred->tensors)
      // Optional tensors keep saying that they may be absent.
      if (isa<UnknownTensorType, mlir::TensorType>(value.getType()) && !isa<BlockArgument>(value))
        Value(value).setType(type);
    if (check && failed(checkTensorSizes(function)))
      return signalPassFailure();
    setRegionArgumentTypes(function);
    setLimits(function, inferred->limits);
    auto results = function.getBody().front().getTerminator()->getOperandTypes();
    function.setType(FunctionType::get(&getContext(), function.getArgumentTypes(), results));
  }

  /// Sizes as text; `?` where only data decides, or nothing is said.
  static SmallVector<std::string> sizesOf(RankedTensorType type) {
    auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
    if (layout && !layout.getDims().empty())
      return llvm::to_vector(layout.getDims());
    return llvm::map_to_vector(type.getShape(), [](int64_t size) -> std::string {
      return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
    });
  }

  static bool agree(RankedTensorType stated, RankedTensorType given) {
    return stated.getElementType() == given.getElementType() && stated.getRank() == given.getRank() &&
           llvm::all_of(llvm::zip(sizesOf(stated), sizesOf(given)), [](auto pair) {
             auto &[left, right] = pair;
             return left == right || left == "?" || right == "?";
           });
  }

  static LogicalResult checkStated(func::FuncOp function, const InferredValues &inferred) {
    WalkResult walk = function.walk([&](Operation *op) {
      for (Value result : op->getResults()) {
        auto stated = dyn_cast<RankedTensorType>(result.getType()), given = inferred.tensors.lookup(result);
        if (!stated || !given || agree(stated, given))
          continue;
        op->emitError() << op->getName() << ": found a result of " << stated << ", expected " << given
                        << ", which is what it gives; correct the type, or leave it out as !cleave.tensor";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
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
