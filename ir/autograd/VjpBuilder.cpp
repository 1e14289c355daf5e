//===- VjpBuilder.cpp - Operations for PyTorch's autograd -----------------===//
#include "ir/autograd/VjpBuilder.h"
#include "ir/Aggregates.h"
#include "ir/UsedValues.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

LogicalResult VjpBuilder::collect(ArrayRef<Operation *> operations) {
  for (Operation *op : operations) {
    SmallVector<ParamOp> inside;
    Operation *writer = nullptr;
    op->walk([&](Operation *inner) {
      if (auto param = dyn_cast<ParamOp>(inner))
        inside.push_back(param);
      auto call = dyn_cast<OperatorOp>(inner);
      if (call && call.getSchema().writesAnyArgument() && isTensorLike(call->getOperand(0).getType()))
        writer = call;
    });
    if (writer)
      return writer->emitError() << writer->getName()
                                 << " changes a value in place, which has no gradient where its "
                                    "backward pass depends on data";
    for (ParamOp param : inside)
      param->moveBefore(op);
  }
  // Lists, tuples and dictionaries are made again inside, so that gradients of their items are seen.
  llvm::SetVector<Operation *> all(operations.begin(), operations.end());
  llvm::SetVector<Value> used;
  for (size_t i = 0; i < all.size(); ++i)
    for (Value value : usedValues(all[i])) {
      Operation *maker = value.getDefiningOp();
      if (maker && (all.contains(maker) || isa<ConstantOp, SizeOp>(maker)))
        continue;
      if (maker && isa<ListOp, TupleOp, DictOp>(maker)) {
        if (mayChange(value))
          return all[i]->emitError() << all[i]->getName()
                                     << " has no gradient: it uses a list or dictionary that is changed";
        all.insert(maker);
      } else {
        used.insert(value);
      }
    }
  copied.assign(all.begin(), all.end());
  llvm::sort(copied, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  captured.assign(used.begin(), used.end());
  return success();
}

/// True if gradients may go to the value: to a tensor, or to one in a list, tuple or dictionary.
static bool mayHaveGradient(const c10::IValue &value) {
  if (value.isList() || value.isTuple())
    return llvm::any_of(itemsOf(value), mayHaveGradient);
  return value.isGenericDict() || isDifferentiable(value);
}

/// Sorts the values from outside into tensors that get gradients, and others.
LogicalResult VjpBuilder::addInputs(Location location) {
  for (Value value : captured) {
    const c10::IValue *example = builder.exampleOf(value);
    const bool isNumber = isa<IntegerType, FloatType>(value.getType());
    if (!requiresGrad.contains(value) || isNumber || (example && !mayHaveGradient(*example))) {
      otherInputs.push_back(value);
    } else if (example && example->isTensor()) {
      differentiableInputs.push_back({value, std::nullopt});
    } else if (example && example->isTensorList() && llvm::all_of(itemsOf(*example), isDifferentiable)) {
      for (unsigned i = 0; i < itemsOf(*example).size(); ++i)
        differentiableInputs.push_back({value, i});
    } else {
      return emitError(location) << "no gradient: the backward pass depends on data, and uses a "
                                 << value.getType() << " whose tensors are not known without data";
    }
  }
  return success();
}

SmallVector<Value> VjpBuilder::fillBody(Block &body, ArrayRef<TensorRef> outputs,
                                        RankedTensorType scalarType) {
  OpBuilder &b = builder.opBuilder();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&body);
  IRMapping mapping;
  const auto arguments = body.getArguments();
  for (unsigned i = 0; i < differentiableInputs.size();) {
    const Value of = differentiableInputs[i].value;
    unsigned end = i + 1;
    while (differentiableInputs[i].item && end < differentiableInputs.size() &&
           differentiableInputs[end].value == of)
      ++end;
    if (differentiableInputs[i].item)
      mapping.map(of, builder.list(cast<ListType>(of.getType()).getElement(),
                                   SmallVector<Value>(arguments.slice(i, end - i))));
    else
      mapping.map(of, arguments[i]);
    i = end;
  }
  for (auto [value, argument] : llvm::zip(otherInputs, arguments.drop_front(differentiableInputs.size())))
    mapping.map(value, argument);
  for (Operation *op : copied) {
    // No boundaries in the copy: a module's output is captured in the forward pass, which computes it before
    // this op does.
    if (auto boundary = dyn_cast<BoundaryOp>(op)) {
      mapping.map(boundary.getResult(), mapping.lookup(boundary.getValue()));
      continue;
    }
    b.clone(*op, mapping)->walk([](BoundaryOp inner) {
      inner.replaceAllUsesWith(inner.getValue());
      inner.erase();
    });
  }
  SmallVector<Value> yielded;
  for (TensorRef output : outputs) {
    Value copy = mapping.lookup(output.value);
    const size_t items = output.item ? itemsOf(*builder.exampleOf(output.value)).size() : 0;
    yielded.push_back(output.item ? builder.unpack(copy, items)[*output.item] : copy);
  }
  if (scalarType) {
    const Value none = builder.constant(b.getNoneType(), b.getUnitAttr()),
                no = builder.constant(b.getI1Type(), b.getBoolAttr(false)),
                dtype = builder.constant(
                    b.getI64Type(), b.getI64IntegerAttr(int64_t(*scalarTypeOf(scalarType.getElementType()))));
    const Value scalar = builder.call("aten.reshape", {yielded[0], builder.list(b.getI64Type(), {})});
    yielded[0] = builder.call("aten.to.dtype", {scalar, dtype, no, no, none});
  }
  return yielded;
}

FailureOr<VjpBuilder::Built> VjpBuilder::build(ArrayRef<Operation *> operations, ArrayRef<TensorRef> outputs,
                                               ValueRange gradOutputs, StringRef reason,
                                               RankedTensorType scalarType) {
  if (failed(collect(operations)))
    return failure();
  if (failed(addInputs(operations.back()->getLoc())))
    return failure();
  OpBuilder &b = builder.opBuilder();
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  for (TensorRef input : differentiableInputs)
    inputs.push_back(builder.materialize(input));
  for (Value input : inputs)
    types.push_back(input.getType());
  llvm::append_range(inputs, otherInputs);
  Block *body = new Block;
  for (Value input : inputs)
    body->addArgument(input.getType(), input.getLoc());
  SmallVector<Value> yielded = fillBody(*body, outputs, scalarType);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body);
    b.create<YieldOp>(operations.back()->getLoc(), yielded);
  }
  for (Value value : yielded)
    types.push_back(scalarType ? Type(scalarType) : value.getType());
  auto op = b.create<VjpOp>(operations.back()->getLoc(), types, gradOutputs, inputs, b.getStringAttr(reason));
  op.getBody().push_back(body);
  return Built{builder.run(op), differentiableInputs};
}

} // namespace cleave
