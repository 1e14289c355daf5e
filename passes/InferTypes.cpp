//===- InferTypes.cpp - Gives tensors their types -------------------------===//
#include "ir/inference/InferTypes.h"
#include "ir/TensorSizes.h"
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
    setInferredTypes(function, *inferred);
    if (check && failed(checkTensorSizes(function)))
      return signalPassFailure();
  }

  /// Sizes as text; `?` if they depend on data or are not given.
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
};
} // namespace

} // namespace cleave
