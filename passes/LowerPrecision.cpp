//===- LowerPrecision.cpp - Contractions in bfloat16 ----------------------===//
#include "ir/Aggregates.h"
#include "ir/DTypeCode.h"
#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "ir/ParkedObserves.h"
#include "ir/semantics/OpSemantics.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_LOWERPRECISION
#include "passes/Passes.h.inc"

static bool isTensorOf(Type type, Type element) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType() == element;
}

/// An operator whose result holds elements of its first operand, in its dtype.
static bool isRearrangement(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return isa<UnpackOp>(op);
  const OpSemantics &semantics = semanticsOf(call.getName());
  return (semantics.isView || semantics.mayBeView || isItemAccess(op)) && !semantics.isCast;
}

/// True if the contraction gains from a narrower dtype. One that sums nothing, such as the angles of rotary
/// positions, is left: it has few operations, and bfloat16 does not distinguish position 257 from 256.
static bool isLargeEnough(OperatorOp op, const ExampleShapes &shapes) {
  return semanticsOf(op.getName()).flops(op, shapes) > 2.0 * shapes.elementsOf(op->getResult(0));
}

namespace {
/// Gives the contractions of one function operands of dtype `narrow` instead of `wide`.
class Lowering {
public:
  Lowering(func::FuncOp function, Type narrow, Type wide, bool keepsWeights)
      : function(function), narrow(narrow), wide(wide), keepsWeights(keepsWeights), shapes(function) {}
  /// Adds the names of the weights that contractions use.
  void collectWeights(llvm::StringSet<> &weights);
  /// Lowers all contractions, and stores `weights` narrow, or casts them once. True if there was a
  /// contraction to lower.
  bool run(const llvm::StringSet<> &weights);

private:
  bool isLowered(OperatorOp op) const;
  void storeNarrow(ParamOp param);
  void lower(OperatorOp op);
  Value narrowed(Value value, Location user);
  Value foundNarrow(Value value);
  Type narrowType(Type type) const;
  void widenResult(Operation *op);
  Value cast(OpBuilder &b, Location loc, Value value, Type element);

  func::FuncOp function;
  Type narrow, wide;
  const bool keepsWeights;
  ExampleShapes shapes;
  SmallVector<Operation *> products;
  /// By wide value: the narrow value that this pass made.
  DenseMap<Value, Value> narrowOf;
};

struct LowerPrecision : impl::LowerPrecisionBase<LowerPrecision> {
  using LowerPrecisionBase::LowerPrecisionBase;

  void runOnOperation() override {
    Builder b(&getContext());
    if (dtype != "bf16") {
      mlir::emitError(getOperation()->getLoc())
          << "dtype " << dtype << ": no dtype for products, expected bf16";
      return signalPassFailure();
    }
    std::vector<Lowering> all;
    llvm::StringSet<> weights;
    for (auto function : getOperation().getOps<func::FuncOp>())
      all.emplace_back(function, b.getBF16Type(), b.getF32Type(), keepWeights).collectWeights(weights);
    for (auto [function, lowering] : llvm::zip_equal(getOperation().getOps<func::FuncOp>(), all))
      if (lowering.run(weights))
        function->setAttr(kPrecisionAttr, b.getStringAttr(dtype));
  }
};
} // namespace

/// The operands of a contraction that change their dtype with it; a list is replaced by its items.
static SmallVector<OpOperand *> loweredOperands(OperatorOp op) {
  StringRef widerArgument = semanticsOf(op.getName()).widerArgument;
  SmallVector<OpOperand *> found;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!widerArgument.empty() && operand.get() == op.getArgument(widerArgument))
      continue;
    if (auto list = operand.get().getDefiningOp<ListOp>()) {
      for (OpOperand &item : list->getOpOperands())
        if (isTensorLike(item.get().getType()))
          found.push_back(&item);
    } else if (isTensorLike(operand.get().getType())) {
      found.push_back(&operand);
    }
  }
  return found;
}

/// The weight that `value` is, perhaps rearranged; null for others.
static ParamOp weightBehind(Value value) {
  Operation *source = value.getDefiningOp();
  while (source && source->getNumOperands() > 0 && isRearrangement(source))
    source = source->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<ParamOp>(source);
}

/// True if the contraction adds what may be a mask or positions, whose numbers exceed bfloat16.
static bool addsComputed(OperatorOp op) {
  Value added = op.getArgument(semanticsOf(op.getName()).addend);
  return added && isTensorLike(added.getType()) && !weightBehind(added);
}

bool Lowering::isLowered(OperatorOp op) const {
  if (!semanticsOf(op.getName()).isContraction || op->getNumResults() != 1 ||
      !isTensorOf(op->getResult(0).getType(), wide) || !isLargeEnough(op, shapes) || addsComputed(op))
    return false;
  auto operands = loweredOperands(op);
  return !operands.empty() && llvm::all_of(operands, [&](OpOperand *operand) {
    return isTensorOf(operand->get().getType(), wide);
  });
}

void Lowering::collectWeights(llvm::StringSet<> &weights) {
  function.walk([&](OperatorOp op) {
    if (isLowered(op))
      products.push_back(op);
  });
  for (Operation *op : products)
    for (OpOperand *operand : loweredOperands(OperatorOp(op)))
      if (ParamOp param = weightBehind(operand->get()))
        weights.insert(param.getName());
}

bool Lowering::run(const llvm::StringSet<> &weights) {
  function.walk([&](ParamOp param) {
    if (weights.contains(param.getName()) && isTensorOf(param.getType(), wide))
      keepsWeights ? void(narrowed(param, param.getLoc())) : storeNarrow(param);
  });
  for (Operation *op : products)
    lower(OperatorOp(op));
  return !products.empty();
}

/// Contractions take the narrow weight before its cast; a lookup takes its rows before they are cast.
void Lowering::storeNarrow(ParamOp param) {
  OpBuilder b(param->getContext());
  b.setInsertionPointAfter(param);
  auto users = llvm::to_vector(param->getUsers());
  param.getResult().setType(narrowType(param.getType()));
  Value widened = cast(b, param.getLoc(), param, wide);
  param.getResult().replaceAllUsesExcept(widened, widened.getDefiningOp());
  for (Operation *user : users) {
    auto call = dyn_cast<OperatorOp>(user);
    if (!call || !semanticsOf(call.getName()).isLookup || user->getNumResults() != 1 ||
        user->getOperand(0) != widened || llvm::count(user->getOperands(), widened) != 1)
      continue;
    user->setOperand(0, param);
    widenResult(user);
  }
  if (widened.use_empty())
    widened.getDefiningOp()->erase();
}

void Lowering::lower(OperatorOp op) {
  // The list may have other users.
  for (OpOperand &operand : op->getOpOperands())
    if (auto list = operand.get().getDefiningOp<ListOp>())
      operand.set(OpBuilder(op).clone(*list)->getResult(0));
  for (OpOperand *operand : loweredOperands(op)) {
    operand->set(narrowed(operand->get(), op->getLoc()));
    if (auto list = dyn_cast<ListOp>(operand->getOwner()))
      list.getResult().setType(ListType::get(op->getContext(), operand->get().getType()));
  }
  widenResult(op);
}

/// Makes the operator give the narrow dtype, and casts the result for its users. Observes stay with what it
/// gives.
void Lowering::widenResult(Operation *op) {
  Value result = op->getResult(0);
  result.setType(narrowType(result.getType()));
  OpBuilder b(op->getContext());
  setInsertionPointAfterObserved(b, result);
  Value widened = cast(b, op->getLoc(), result, wide);
  result.replaceUsesWithIf(widened, [&](OpOperand &use) {
    return use.getOwner() != widened.getDefiningOp() && !isa<ObserveOp>(use.getOwner());
  });
}

/// `value` in the narrow dtype. The cast is next to the value, so that one cast serves all users and stages
/// send narrow values. `user`: location of the cast of a function's argument.
Value Lowering::narrowed(Value value, Location user) {
  if (Value found = foundNarrow(value))
    return found;
  OpBuilder b(value.getContext());
  setInsertionPointAfterObserved(b, value);
  Operation *source = value.getDefiningOp();
  Value made = cast(b, source ? source->getLoc() : user, value, narrow);
  narrowOf[value] = made;
  return made;
}

/// narrowed for a value that was cast from the narrow dtype, or a rearrangement of such a value; null for
/// others.
Value Lowering::foundNarrow(Value value) {
  if (Value known = narrowOf.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumOperands() == 0 || !narrowType(value.getType()) || mayChange(value))
    return {};
  Value source = op->getOperand(0);
  auto call = dyn_cast<OperatorOp>(op);
  if (call && semanticsOf(call.getName()).isCast)
    return isTensorOf(source.getType(), narrow) ? source : Value();
  if (!isRearrangement(op) ||
      !llvm::all_of(op->getResultTypes(), [&](Type type) { return narrowType(type) != nullptr; }))
    return {};
  Value from = foundNarrow(source);
  if (!from)
    return {};
  OpBuilder b(op);
  Operation *copy = b.clone(*op);
  copy->setOperand(0, from);
  for (auto [old, made] : llvm::zip(op->getResults(), copy->getResults())) {
    made.setType(narrowType(old.getType()));
    narrowOf[old] = made;
  }
  return narrowOf.lookup(value);
}

/// The narrow type of a wide tensor or a list of wide tensors; null for others.
Type Lowering::narrowType(Type type) const {
  if (isTensorOf(type, wide))
    return mlir::cast<RankedTensorType>(type).clone(narrow);
  auto list = dyn_cast<ListType>(type);
  if (!list)
    return {};
  if (isa<UnknownTensorType>(list.getElement()))
    return type;
  Type element = narrowType(list.getElement());
  return element ? ListType::get(type.getContext(), element) : Type();
}

Value Lowering::cast(OpBuilder &b, Location loc, Value value, Type element) {
  Type type = mlir::cast<RankedTensorType>(value.getType()).clone(element);
  Value code = b.create<ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(*dtypeCodeOf(element)));
  Value no = b.create<ConstantOp>(loc, b.getI1Type(), b.getBoolAttr(false));
  Value none = b.create<ConstantOp>(loc, b.getNoneType(), b.getUnitAttr());
  return OperatorOp::create(b, loc, "aten.to.dtype", {value, code, no, no, none}, type)->getResult(0);
}

} // namespace cleave
