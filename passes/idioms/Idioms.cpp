//===- Idioms.cpp - Operator sequences that ATen can fuse -----------------===//
#include "passes/idioms/Idioms.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

OperatorOp Match::producerOf(Value value, std::initializer_list<StringRef> names) {
  auto op = dyn_cast_or_null<OperatorOp>(value.getDefiningOp());
  if (!op || !llvm::is_contained(names, op.getBaseName()))
    return OperatorOp(nullptr);
  add(op);
  return op;
}

bool Match::onlyRootEscapes(Operation *root) const {
  return llvm::all_of(ops, [&](Operation *op) {
    return op == root ||
           (op->getBlock() == root->getBlock() && llvm::all_of(op->getUsers(), [&](Operation *user) {
              return user == root || ops.contains(user);
            }));
  });
}

std::optional<double> numberOf(Value value) {
  if (auto param = value.getDefiningOp<ParamOp>()) {
    if (auto number = param.getNumberAttr())
      return number.getValueAsDouble();
    auto type = dyn_cast<RankedTensorType>(param.getType());
    bool isNumber = param.getRole() == "constant" && param.getIntegers() && type && type.getRank() == 0;
    return isNumber ? std::optional<double>(param.getIntegers()->front()) : std::nullopt;
  }
  auto op = dyn_cast_or_null<OperatorOp>(value.getDefiningOp());
  if (auto type = op && op.getName() == "aten.full" ? floatTensor(value) : RankedTensorType();
      type && type.getRank() == 0)
    return numberOf(op.getArgument("fill_value"));
  Attribute constant;
  if (!matchPattern(value, m_Constant(&constant)))
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(constant))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast<IntegerAttr>(constant); integer && !integer.getType().isInteger(1))
    return integer.getInt();
  return std::nullopt;
}

bool isSameNumber(double found, double expected, Type element) {
  double tolerance = element.isF64() ? 1e-15 : 1e-9;
  return std::abs(found - expected) <= tolerance * std::abs(expected);
}

std::optional<NumberAndValue> withNumber(OperatorOp op) {
  Value left = op->getOperand(0), right = op->getOperand(1);
  if (auto number = numberOf(right))
    return NumberAndValue{*number, left};
  if (auto number = numberOf(left))
    return NumberAndValue{*number, right};
  return std::nullopt;
}

bool isPlainSum(OperatorOp add) {
  Value alpha = add.getArgument("alpha");
  return alpha && numberOf(alpha) == 1;
}

RankedTensorType floatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getElementType().isF32() || type.getElementType().isF64()) ? type : RankedTensorType();
}

bool isSameSize(RankedTensorType a, int64_t left, RankedTensorType b, int64_t right) {
  int64_t size = a.getDimSize(left);
  if (size != b.getDimSize(right) || size != ShapedType::kDynamic)
    return size == b.getDimSize(right);
  auto aLayout = dyn_cast_or_null<LayoutAttr>(a.getEncoding()),
       bLayout = dyn_cast_or_null<LayoutAttr>(b.getEncoding());
  if (!aLayout || !bLayout || aLayout.getDims().empty() || bLayout.getDims().empty())
    return false;
  return aLayout.getDims()[left] == bLayout.getDims()[right] && aLayout.getDims()[left] != "?";
}

bool isSameShape(Type left, Type right) {
  auto a = dyn_cast<RankedTensorType>(left), b = dyn_cast<RankedTensorType>(right);
  return a && b && a.getElementType() == b.getElementType() && a.getRank() == b.getRank() &&
         llvm::all_of(llvm::seq<int64_t>(0, a.getRank()), [&](int64_t i) { return isSameSize(a, i, b, i); });
}

bool hasUnitStride(RankedTensorType type, int64_t back) {
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  if (type.getRank() <= back)
    return false;
  return !layout || layout.getStrides().empty() ? back == 0
                                                : layout.getStrides()[type.getRank() - 1 - back] == "1";
}

bool isDim(OperatorOp op, StringRef argument, int64_t dim, int64_t rank) {
  auto found = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument(argument));
  return found && (found.getInt() == dim || found.getInt() == dim + rank);
}

Value OperatorBuilder::call(StringRef name, ValueRange operands, Type type) {
  return OperatorOp::create(rewriter, loc, name, operands,
                            type ? type : UnknownTensorType::get(rewriter.getContext()))
      ->getResult(0);
}

Value OperatorBuilder::list(ValueRange tensors) {
  return rewriter.create<ListOp>(
      loc, ListType::get(rewriter.getContext(), UnknownTensorType::get(rewriter.getContext())), tensors);
}

Value OperatorBuilder::integer(int64_t value) {
  return rewriter.create<ConstantOp>(loc, rewriter.getI64Type(), rewriter.getI64IntegerAttr(value));
}

Value OperatorBuilder::integers(ArrayRef<int64_t> values) {
  return rewriter.create<ConstantOp>(loc, ListType::get(rewriter.getContext(), rewriter.getI64Type()),
                                     rewriter.getI64ArrayAttr(values));
}

Value OperatorBuilder::real(double value) {
  return rewriter.create<ConstantOp>(loc, rewriter.getF64Type(), rewriter.getF64FloatAttr(value));
}

Value OperatorBuilder::boolean(bool value) {
  return rewriter.create<ConstantOp>(loc, rewriter.getI1Type(), rewriter.getBoolAttr(value));
}

Value OperatorBuilder::string(StringRef value) {
  return rewriter.create<ConstantOp>(loc, StringType::get(rewriter.getContext()),
                                     rewriter.getStringAttr(value));
}

Value OperatorBuilder::none() {
  return rewriter.create<ConstantOp>(loc, rewriter.getNoneType(), rewriter.getUnitAttr());
}

} // namespace cleave
