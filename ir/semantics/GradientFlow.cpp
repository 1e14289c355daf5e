//===- GradientFlow.cpp - Which values have gradients ---------------------===//
#include "ir/semantics/GradientFlow.h"
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Only floating-point tensors have gradients; a tensor of unknown type may have one.
static bool mayHaveGradient(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return isa<FloatType, ComplexType>(shaped.getElementType());
  return !type.isIntOrFloat();
}

bool GradientFlow::isDifferentiated(Operation *op) const {
  return llvm::any_of(op->getResults(), [&](Value result) { return requiresGrad(result); });
}

void GradientFlow::follow(Operation *op) {
  auto mark = [](llvm::DenseSet<Value> &values, ValueRange marked) {
    values.insert(marked.begin(), marked.end());
  };
  if (auto param = dyn_cast<ParamOp>(op)) {
    if (param.getRole() == "parameter" && mayHaveGradient(param.getType()))
      requiringGrad.insert(param);
    return;
  }
  if (isa<ReadStateOp>(op))
    mark(dependingOnInputs, op->getResults());
  // A value used in a region counts as used by the operation with the region.
  bool takesRequest = false, takesParameters = false;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      takesRequest |= dependingOnInputs.contains(operand);
      takesParameters |= requiringGrad.contains(operand);
    }
  });
  auto call = dyn_cast<OperatorOp>(op);
  const OpSemantics *semantics = call ? &semanticsOf(call.getName()) : nullptr;
  if (semantics && (semantics->hasNoGradient || semantics->readsNoElements || semantics->isUninitialized ||
                    (semantics->isScalar && !isItemAccess(op))))
    takesParameters = false;
  SmallVector<Value> made(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(made, block.getArguments());
  const std::optional<unsigned> end = semantics ? semantics->firstResultWithoutGradient : std::nullopt;
  for (auto [number, value] : llvm::enumerate(made)) {
    if (takesRequest)
      dependingOnInputs.insert(value);
    if (takesParameters && mayHaveGradient(value.getType()) && number < end.value_or(made.size()))
      requiringGrad.insert(value);
  }
}

GradientFlow::GradientFlow(Operation *function) {
  for (Value argument : function->getRegion(0).getArguments())
    dependingOnInputs.insert(argument);
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != function)
      follow(op);
  });
}

//===- Storages -----------------------------------------------------------===//

static bool isRowMajor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
  return !layout || layout.getStrides().empty();
}

static bool haveSameElements(Value a, Value b) {
  auto left = dyn_cast<ShapedType>(a.getType()), right = dyn_cast<ShapedType>(b.getType());
  return left && right && left.getElementType() == right.getElementType();
}

/// The operand whose storage result `index` shares; null if the result has its own.
static Value sharedBy(Operation *op, unsigned index) {
  if (isa<BoundaryOp, FirstRankOp>(op))
    return op->getOperand(0);
  if (auto unpack = dyn_cast<UnpackOp>(op)) {
    Operation *made = unpack.getAggregate().getDefiningOp();
    return made && isa<ListOp, TupleOp>(made) && index < made->getNumOperands() ? made->getOperand(index)
                                                                                : unpack.getAggregate();
  }
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return {};
  const OpSemantics &semantics = semanticsOf(call.getName());
  if (Value same = semantics.identityOf ? semantics.identityOf(call) : Value())
    return same;
  if (isItemAccess(op)) {
    Operation *made = op->getOperand(0).getDefiningOp();
    if (!made || !isa<ListOp, TupleOp>(made))
      return op->getOperand(0);
    auto item = constantInt(call, semantics.item);
    auto place = item ? dimensionAt(*item, made->getNumOperands()) : std::nullopt;
    return place ? made->getOperand(*place) : Value();
  }
  if (semantics.isView)
    return op->getOperand(0);
  // Operators other than casts copy a tensor that is not contiguous, and a copy is contiguous.
  const bool isKept = semantics.isCast ? haveSameElements(op->getOperand(0), op->getResult(index))
                                       : isRowMajor(op->getOperand(0)) || !isRowMajor(op->getResult(index));
  return semantics.mayBeView && isKept ? op->getOperand(0) : Value();
}

Value storageOf(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Value base = sharedBy(result.getOwner(), result.getResultNumber());
    if (!base)
      break;
    value = base;
  }
  return value;
}

} // namespace cleave
