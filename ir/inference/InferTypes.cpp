//===- InferTypes.cpp - Writes inferred types on values -------------------===//
#include "ir/inference/InferTypes.h"
#include "ir/ExampleShapes.h"

using namespace mlir;

namespace cleave {

/// Named sizes of a tensor's type; empty where all are known.
static ArrayRef<std::string> dimsOf(RankedTensorType type) {
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  return layout ? ArrayRef<std::string>(layout.getDims()) : ArrayRef<std::string>();
}

FailureOr<InferredValues> inferWithStates(func::FuncOp function) {
  while (true) {
    auto inferred = inferShapes(function);
    if (failed(inferred))
      return failure();
    bool isStable = true;
    function.walk([&](WriteStateOp update) {
      ReadStateOp state = update.getState();
      auto before = dyn_cast<RankedTensorType>(state.getType()),
           after = inferred->tensors.lookup(update.getValue());
      if (!before || (after && after.getShape() == before.getShape() && dimsOf(after) == dimsOf(before) &&
                      after.getElementType() == before.getElementType()))
        return;
      state.getResult().setType(UnknownTensorType::get(function.getContext()));
      state.removeBatchDimAttr();
      isStable = false;
    });
    if (isStable)
      return inferred;
  }
}

void setInferredTypes(func::FuncOp function, const InferredValues &inferred) {
  for (auto &[value, type] : inferred.tensors)
    // An optional tensor keeps its type, which says that it may be absent.
    if (isa<UnknownTensorType, mlir::TensorType>(value.getType()) && !isa<BlockArgument>(value))
      Value(value).setType(type);
  auto setArguments = [](Region &body, ValueRange inputs) {
    for (auto [argument, input] : llvm::zip(body.getArguments(), inputs))
      argument.setType(input.getType());
  };
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto stage = dyn_cast<StageOp>(op))
      setArguments(stage.getBody(), stage.getInputs());
    else if (auto vjp = dyn_cast<VjpOp>(op))
      setArguments(vjp.getBody(), vjp.getInputs());
  });
  setLimits(function, inferred.limits);
  auto results = function.getBody().front().getTerminator()->getOperandTypes();
  function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), results));
}

LogicalResult inferTypes(func::FuncOp function) {
  auto inferred = inferWithStates(function);
  if (succeeded(inferred))
    setInferredTypes(function, *inferred);
  return inferred;
}

} // namespace cleave
