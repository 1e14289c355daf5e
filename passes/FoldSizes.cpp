//===- FoldSizes.cpp - Size arithmetic to constants and named sizes -------===//
#include "ir/Aggregates.h"
#include "ir/OperatorDialect.h"
#include "ir/ParkedObserves.h"
#include "ir/inference/ShapeInference.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FOLDSIZES
#include "passes/Passes.h.inc"

namespace {
struct FoldSizes : impl::FoldSizesBase<FoldSizes> {
  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    IRRewriter rewriter(&getContext(), &parked);
    auto inferred = inferShapes(getOperation());
    if (failed(inferred))
      return signalPassFailure();
    SmallVector<Operation *> calls;
    getOperation().walk([&](OperatorOp call) { calls.push_back(call); });
    for (Operation *call : calls)
      fold(call, *inferred);
    // Operations that only made sizes are dead now; users come first.
    for (Operation *call : llvm::reverse(calls))
      if (isOpTriviallyDead(call))
        rewriter.eraseOp(call);
  }

  static Value makeSize(OpBuilder &b, Location loc, const SymbolicDim &size) {
    if (auto constant = size.asConstant())
      return b.create<ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(*constant));
    return b.create<SizeOp>(loc, b.getI64Type(), size.str());
  }

  /// Integers, and numbers that are integers where an operator takes either.
  static bool mayBeSize(Value value) {
    auto isCall = [](Operation *user) { return isa<OperatorOp>(user); };
    return value.getType().isInteger(64) ||
           (isa<NumberType>(value.getType()) && llvm::all_of(value.getUsers(), isCall));
  }

  static void fold(Operation *call, const InferredValues &inferred) {
    if (!wouldOpBeTriviallyDead(call))
      return;
    OpBuilder b(call);
    for (Value result : call->getResults()) {
      if (result.use_empty())
        continue;
      if (auto size = inferred.sizes.find(result); size != inferred.sizes.end() && mayBeSize(result)) {
        result.replaceAllUsesWith(makeSize(b, call->getLoc(), size->second));
      } else if (auto list = inferred.sizeLists.find(result);
                 list != inferred.sizeLists.end() && !mayChange(result)) {
        SmallVector<Value> items;
        for (const SymbolicDim &item : list->second)
          items.push_back(makeSize(b, call->getLoc(), item));
        result.replaceAllUsesWith(b.create<ListOp>(call->getLoc(), result.getType(), items));
      } else if (auto known = inferred.constants.find(result); known != inferred.constants.end()) {
        auto typed = dyn_cast<TypedAttr>(known->second);
        if (typed && typed.getType() == result.getType())
          result.replaceAllUsesWith(b.create<ConstantOp>(call->getLoc(), result.getType(), known->second));
      }
    }
  }
};
} // namespace

} // namespace cleave
