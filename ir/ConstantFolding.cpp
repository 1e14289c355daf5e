//===- ConstantFolding.cpp - Operators on constants -----------------------===//
#include "ir/ConstantFolding.h"
#include "ir/Aggregates.h"
#include "ir/IValueConversion.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

/// `list[i]` for a list made in the function and a constant i.
static OpFoldResult foldItem(OperatorOp op, ArrayRef<Attribute> operands) {
  if (op->getNumOperands() != 2)
    return {};
  Operation *maker = op->getOperand(0).getDefiningOp();
  auto index = dyn_cast_or_null<IntegerAttr>(operands[1]);
  if (!index || !isa_and_nonnull<ListOp, TupleOp>(maker) ||
      (isa<ListOp>(maker) && mayChange(op->getOperand(0))))
    return {};
  int64_t count = maker->getNumOperands();
  int64_t position = index.getInt() < 0 ? index.getInt() + count : index.getInt();
  if (position < 0 || position >= count)
    return {};
  return maker->getOperand(position);
}

/// The value of a list of constants made in the function; null for others.
static Attribute constantList(Value value) {
  auto list = value.getDefiningOp<ListOp>();
  if (!list || mayChange(value))
    return {};
  SmallVector<Attribute> items;
  for (Value element : list.getElements())
    if (Attribute item; matchPattern(element, m_Constant(&item)))
      items.push_back(item);
    else
      return {};
  return ArrayAttr::get(value.getContext(), items);
}

/// `len` of a list, tuple or dict made in the function.
static Attribute foldLength(OperatorOp op) {
  Operation *maker = op.getBaseName() == "aten.len" ? op->getOperand(0).getDefiningOp() : nullptr;
  if (!isa_and_nonnull<ListOp, TupleOp>(maker) || mayChange(op->getOperand(0)))
    return {};
  return Builder(op->getContext()).getI64IntegerAttr(maker->getNumOperands());
}

/// The operand of a cast to the dtype that it has already, which functionalization leaves behind.
static Value uncast(OperatorOp op) {
  if (op.getName() != "aten.type_as")
    return {};
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto like = dyn_cast<RankedTensorType>(op->getOperand(1).getType());
  return from && like && from.getElementType() == like.getElementType() ? op->getOperand(0) : Value();
}

/// Calls the operator. Null results if it throws, so that the program throws at run time.
static SmallVector<Attribute> evaluate(OperatorOp op, ArrayRef<Attribute> operands) {
  auto callee = findOperator(op.getName());
  if (!callee)
    return {};
  torch::jit::Stack stack;
  for (auto [attribute, operand] : llvm::zip(operands, op->getOperands()))
    stack.push_back(toIValue(attribute, operand.getType()));
  if (op.getSchema().isVariadic)
    stack.emplace_back(int64_t(op->getNumOperands()));
  try {
    callee->getOperation()(stack);
  } catch (const std::exception &) {
    return {};
  }
  SmallVector<Attribute> results;
  for (const c10::IValue &value : stack)
    results.push_back(toAttribute(value, op->getContext()));
  return results;
}

/// True for a wrapped number; results of operators on it are ordinary tensors.
static bool isWrappedNumber(Value value) {
  auto param = value.getDefiningOp<ParamOp>();
  return param && param.getWrapped();
}

LogicalResult foldOperator(OperatorOp op, ArrayRef<Attribute> operands,
                           SmallVectorImpl<OpFoldResult> &results) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  if (semantics.identityOf)
    if (Value same = semantics.identityOf(op);
        same && same.getType() == op->getResult(0).getType() && !isWrappedNumber(same)) {
      results.push_back(same);
      return success();
    }
  if (Value same = uncast(op); same && same.getType() == op->getResult(0).getType()) {
    results.push_back(same);
    return success();
  }
  if (Attribute length = foldLength(op)) {
    results.push_back(length);
    return success();
  }
  if (isItemAccess(op))
    if (OpFoldResult item = foldItem(op, operands)) {
      auto value = dyn_cast<Value>(item);
      if (value && value.getType() == op->getResult(0).getType()) {
        results.push_back(item);
        return success();
      }
    }
  if (op->getNumOperands() == 0 || !isMemoryEffectFree(op) ||
      llvm::any_of(op->getResultTypes(), isTensorLike))
    return failure();
  SmallVector<Attribute> known(operands);
  for (auto [attribute, operand] : llvm::zip(known, op->getOperands()))
    if (!attribute && !(attribute = constantList(operand)))
      return failure();
  SmallVector<Attribute> values = evaluate(op, known);
  if (values.size() != op->getNumResults() || llvm::is_contained(values, Attribute()))
    return failure();
  llvm::append_range(results, values);
  return success();
}

} // namespace cleave
