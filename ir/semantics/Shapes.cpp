//===- Shapes.cpp - Shapes and constant arguments, as rules read them -----===//
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

SmallVector<Value> flatOperands(OperatorOp op) {
  SmallVector<Value> flat;
  for (Value operand : op->getOperands()) {
    auto list = operand.getDefiningOp<ListOp>();
    bool holdsTensors = list && llvm::any_of(list.getElements().getTypes(), isTensorLike);
    if (holdsTensors)
      llvm::append_range(flat, list.getElements());
    else
      flat.push_back(operand);
  }
  return flat;
}

static SmallVector<OptionalShape> shapesOf(ValueRange values, const ExampleShapes &shapes) {
  return llvm::map_to_vector(values, [&](Value value) { return shapes.shapeOf(value); });
}

SmallVector<OptionalShape> operandShapes(OperatorOp op, const ExampleShapes &shapes) {
  return shapesOf(flatOperands(op), shapes);
}

SmallVector<OptionalShape> resultShapes(OperatorOp op, const ExampleShapes &shapes) {
  return shapesOf(op->getResults(), shapes);
}

SmallVector<int64_t> broadcastShape(ArrayRef<OptionalShape> shapes) {
  SmallVector<int64_t> whole;
  for (const OptionalShape &shape : shapes) {
    if (!shape)
      continue;
    if (shape->size() > whole.size())
      whole.insert(whole.begin(), shape->size() - whole.size(), 1);
    for (auto [size, own] : llvm::zip(MutableArrayRef(whole).take_back(shape->size()), *shape))
      size = size == 1 ? own : size;
  }
  return whole;
}

std::optional<int64_t> constantInt(OperatorOp op, StringRef argument) {
  auto number = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument(argument));
  if (!number)
    return std::nullopt;
  return number.getType().isInteger(1) ? number.getValue().getZExtValue() : number.getInt();
}

std::optional<SmallVector<int64_t>> constantInts(OperatorOp op, StringRef argument) {
  SmallVector<Attribute> items;
  Value operand = op.getArgument(argument);
  if (auto list = operand ? operand.getDefiningOp<ListOp>() : ListOp()) {
    for (Value element : list.getElements())
      if (Attribute item; matchPattern(element, m_Constant(&item)))
        items.push_back(item);
      else
        return std::nullopt;
  } else if (auto array = dyn_cast_or_null<ArrayAttr>(op.getConstantArgument(argument))) {
    llvm::append_range(items, array);
  } else {
    return std::nullopt;
  }
  SmallVector<int64_t> result;
  for (Attribute item : items)
    if (auto number = dyn_cast<IntegerAttr>(item))
      result.push_back(number.getInt());
    else
      return std::nullopt;
  return result;
}

std::optional<unsigned> dimensionAt(int64_t dim, size_t rank) {
  int64_t counted = dim < 0 ? dim + int64_t(rank) : dim;
  return counted >= 0 && counted < int64_t(rank) ? std::optional<unsigned>(counted) : std::nullopt;
}

} // namespace cleave
