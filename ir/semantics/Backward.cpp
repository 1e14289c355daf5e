//===- Backward.cpp - What the backward pass of a call takes --------------===//
#include "ir/semantics/Backward.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Bytes per element to read and write an accumulated weight gradient.
static constexpr double kSummedBytes = 2 * sizeof(float);
/// Attention that saves no scores computes five matrix products in the backward pass for two in the forward
/// pass (Dao et al. 2022).
static constexpr double kAttentionProducts = 5.0 / 2;

namespace {
class Backward {
public:
  Backward(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow)
      : op(op), shapes(shapes), flow(flow), semantics(semanticsOf(op.getName())), operands(flatOperands(op)) {
  }
  BackwardWork run();

private:
  SmallVector<Value> factors();
  SmallVector<Value> saved();
  double bytesOf(ValueRange values) const;
  /// Bytes written for the value's gradient.
  double gradientBytes(Value value) const;
  void add(Value operand, GradientWork gradient);
  void multiply();
  void pass();
  void differentiate();

  OperatorOp op;
  const ExampleShapes &shapes;
  const GradientFlow &flow;
  const OpSemantics &semantics;
  SmallVector<Value> operands;
  BackwardWork result;
};
} // namespace

static bool isFloating(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type && isa<FloatType, ComplexType>(type.getElementType());
}

static SmallVector<Value> tensorsIn(ValueRange values, llvm::function_ref<bool(Value)> isWanted) {
  return llvm::to_vector(llvm::make_filter_range(
      values, [&](Value value) { return isTensorLike(value.getType()) && isWanted(value); }));
}

/// The factors of the contraction: left, then right.
SmallVector<Value> Backward::factors() {
  auto argument = [&](StringRef name) { return name.empty() ? Value() : op.getArgument(name); };
  Value added = argument(semantics.addend), wide = argument(semantics.widerArgument);
  return tensorsIn(operands,
                   [&](Value value) { return isFloating(value) && value != added && value != wide; });
}

SmallVector<Value> Backward::saved() {
  auto all = [](Value) { return true; };
  auto isNotFloating = [](Value value) { return !isFloating(value); };
  switch (semantics.saved) {
  case SavedForBackward::Nothing:
  case SavedForBackward::PassThrough:
  case SavedForBackward::NoGradient:
    return {};
  case SavedForBackward::Operands:
    return tensorsIn(operands, all);
  case SavedForBackward::First:
    return {op->getOperand(0)};
  case SavedForBackward::Result:
    return {op->getResult(0)};
  case SavedForBackward::FirstAndResult:
    return {op->getOperand(0), op->getResult(0)};
  case SavedForBackward::Attention: {
    SmallVector<Value> values = tensorsIn(operands, isFloating);
    values.push_back(op->getResult(0));
    return values;
  }
  case SavedForBackward::Multiplicands: {
    SmallVector<Value> multiplied = factors(), values;
    for (auto [i, factor] : llvm::enumerate(multiplied))
      for (auto [other, value] : llvm::enumerate(multiplied))
        if (other != i && flow.requiresGrad(value) && !llvm::is_contained(values, factor))
          values.push_back(factor);
    return values;
  }
  case SavedForBackward::NonFloatOperands:
    return tensorsIn(operands, isNotFloating);
  case SavedForBackward::NonFloatResults:
    return tensorsIn(op->getResults(), isNotFloating);
  }
  llvm_unreachable("every kind is there");
}

double Backward::bytesOf(ValueRange values) const {
  double bytes = 0;
  for (Value value : values)
    bytes += shapes.bytesOf(value);
  return bytes;
}

double Backward::gradientBytes(Value value) const {
  return flow.isWeight(value) ? kSummedBytes * shapes.elementsOf(value) : shapes.bytesOf(value);
}

void Backward::add(Value operand, GradientWork gradient) {
  (flow.isWeight(operand) ? result.weights : result.inputs).push_back(std::move(gradient));
}

/// The gradient of each factor is the result's gradient times the other factors.
void Backward::multiply() {
  const OpWork forward = workOf(op, shapes);
  const SmallVector<Value> all = factors();
  auto gemm = semantics.gemm && all.size() == 2 ? semantics.gemm(op, shapes) : std::nullopt;
  for (auto [i, factor] : llvm::enumerate(all)) {
    if (!flow.requiresGrad(factor))
      continue;
    // dx[rows, depth] = dy[rows, columns] · wᵀ, dw[depth, columns] = xᵀ · dy.
    GradientWork gradient;
    gradient.work = {forward.flops, bytesOf(op->getResults()) + bytesOf(all) - shapes.bytesOf(factor) +
                                        gradientBytes(factor)};
    if (gemm) {
      gradient.gemm = *gemm;
      std::swap(i == 0 ? gradient.gemm->columns : gradient.gemm->rows, gradient.gemm->depth);
    }
    add(factor, gradient);
  }
}

/// The gradient of an added operand is a sum over its broadcast dimensions.
void Backward::pass() {
  const int64_t elements = shapes.elementsOf(op->getResult(0));
  for (Value operand : operands)
    if (flow.requiresGrad(operand) && isFloating(operand) &&
        (flow.isWeight(operand) || shapes.elementsOf(operand) < elements))
      add(operand, {{double(elements), bytesOf(op->getResults()) + gradientBytes(operand)}, std::nullopt});
}

/// One kernel computes all gradients.
void Backward::differentiate() {
  const bool isAttention = semantics.saved == SavedForBackward::Attention;
  GradientWork all;
  all.work.flops = workOf(op, shapes).flops * (isAttention ? kAttentionProducts : 1);
  all.work.bytes = bytesOf(op->getResults()) + bytesOf(result.saved) + result.extraBytes;
  for (Value operand : operands)
    if (flow.requiresGrad(operand))
      all.work.bytes += gradientBytes(operand);
  if (isAttention && semantics.gemm)
    all.gemm = semantics.gemm(op, shapes);
  const bool isOfInputs = llvm::any_of(
      operands, [&](Value operand) { return flow.requiresGrad(operand) && !flow.isWeight(operand); });
  (isOfInputs ? result.inputs : result.weights).push_back(all);
}

BackwardWork Backward::run() {
  if (!flow.isDifferentiated(op) || semantics.isScalar || semantics.collective ||
      storageOf(op->getResult(0)) != op->getResult(0))
    return result;
  if (semantics.isCast || semantics.mayBeView) {
    // The gradient of a cast is cast back; that of a copy in another layout is not copied.
    if (semantics.isCast)
      add(op->getOperand(0),
          {{0, bytesOf(op->getResults()) + gradientBytes(op->getOperand(0))}, std::nullopt});
    return result;
  }
  result.saved = saved();
  result.extraBytes = semantics.savedBytes ? semantics.savedBytes(op, shapes) : 0;
  if (semantics.saved == SavedForBackward::Multiplicands)
    multiply();
  else if (semantics.saved == SavedForBackward::PassThrough)
    pass();
  else
    differentiate();
  // The operand that is added to the contraction.
  if (StringRef name = semantics.addend; !name.empty())
    if (Value added = op.getArgument(name);
        added && flow.requiresGrad(added) && semantics.saved == SavedForBackward::Multiplicands)
      add(added,
          {{double(shapes.elementsOf(op->getResult(0))), bytesOf(op->getResults()) + gradientBytes(added)},
           std::nullopt});
  return result;
}

BackwardWork backwardOf(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow) {
  return Backward(op, shapes, flow).run();
}

} // namespace cleave
