//===- TensorSizes.cpp - Limits of tensor sizes ---------------------------===//
#include "ir/TensorSizes.h"
#include "ir/ExampleShapes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

/// Bytes of a value; the maximum if they overflow 64 bits; 0 if unknown.
static uint64_t bytesOf(Value value, const ExampleShapes &shapes) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return 0;
  auto shape = shapes.shapeOf(value);
  if (!shape) {
    // Sizes that depend on data are unknown; other sizes without a value are too large to be evaluated.
    auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
    const bool isUnknown = !layout || layout.getDims().empty() || llvm::is_contained(layout.getDims(), "?");
    return isUnknown ? 0 : std::numeric_limits<uint64_t>::max();
  }
  uint64_t bytes = elementBytes(type.getElementType());
  for (int64_t size : *shape)
    bytes = llvm::SaturatingMultiply(bytes, uint64_t(std::max<int64_t>(0, size)));
  return bytes;
}

LogicalResult checkTensorSizes(func::FuncOp function) {
  const ExampleShapes shapes(function);
  uint64_t total = 0;
  auto check = [&](Operation *op, Value value) -> LogicalResult {
    const uint64_t bytes = bytesOf(value, shapes);
    total = llvm::SaturatingAdd(total, bytes);
    if (bytes > uint64_t(kMaxTensorBytes))
      return op->emitError() << "found a " << value.getType() << ", expected at most " << kMaxTensorBytes
                             << " bytes a tensor; give smaller sizes";
    if (total > uint64_t(kMaxFunctionBytes))
      return op->emitError() << "found values of more than " << kMaxFunctionBytes
                             << " bytes up to here; give smaller sizes, or fewer tensors";
    return success();
  };
  for (BlockArgument argument : function.getArguments())
    if (failed(check(function, argument)))
      return failure();
  WalkResult walk = function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (failed(check(op, result)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

} // namespace cleave
