//===- AutogradFallback.cpp - Gradients that need PyTorch's autograd ------===//
#include "ir/UsedValues.h"
#include "ir/autograd/Differentiator.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

std::string Differentiator::reasonOfUnknown() const {
  std::string reason = "its type depends on data";
  function->walk([&](Operation *op) {
    auto failure = samples.runs.front().failures.find(op);
    if (failure == samples.runs.front().failures.end())
      return WalkResult::advance();
    reason = (op->getName().getStringRef() + ": " + failure->second.reason).str();
    return WalkResult::interrupt();
  });
  return reason;
}

FailureOr<VjpBuilder::Built> Differentiator::buildVjp(ArrayRef<Operation *> operations,
                                                      ArrayRef<TensorRef> outputs, ValueRange gradOutputs,
                                                      StringRef reason, RankedTensorType scalarType) {
  auto built = VjpBuilder(builder, requiresGrad).build(operations, outputs, gradOutputs, reason, scalarType);
  if (succeeded(built))
    for (auto [input, gradient] : llvm::zip(built->inputs, built->op.getResults()))
      accumulate(input, gradient);
  return built;
}

LogicalResult Differentiator::differentiateByAutograd(Operation *op, ArrayRef<TensorRef> results,
                                                      StringRef reason) {
  Operation *random = nullptr;
  op->walk([&](OperatorOp call) {
    if (!random && isRandom(call))
      random = call;
  });
  if (random)
    return random->emitError() << random->getName()
                               << " has no gradient: its backward pass runs it again, which "
                               << "would draw other random numbers; set dropout probabilities to 0";
  builder.setLocation(op->getLoc());
  SmallVector<TensorRef> outputs;
  SmallVector<Value> gradOutputs;
  for (TensorRef result : results)
    if (Value gradient = gradientOf(result)) {
      outputs.push_back(result);
      gradOutputs.push_back(gradient);
    }
  return buildVjp(op, outputs, gradOutputs, reason);
}

/// The operations that the value depends on, in the order of their block.
static std::vector<Operation *> backwardSlice(Value value) {
  llvm::SetVector<Operation *> found;
  auto add = [&](Value used) {
    if (Operation *maker = used.getDefiningOp())
      found.insert(maker);
  };
  add(value);
  for (size_t i = 0; i < found.size(); ++i)
    llvm::for_each(usedValues(found[i]), add);
  std::vector<Operation *> sorted(found.begin(), found.end());
  llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

LogicalResult Differentiator::replaceLossByVjp(unsigned index) {
  Operation *terminator = function.getBody().front().getTerminator();
  const Value loss = terminator->getOperand(index);
  DenseSet<Value> unknown;
  std::vector<Operation *> operations;
  for (Operation *op : backwardSlice(loss)) {
    auto isUnknown = [&](Value result) { return !exampleOf(result); };
    if (isa<ParamOp, ReadStateOp>(op) || !(llvm::any_of(op->getResults(), isUnknown) || usesAny(op, unknown)))
      continue;
    unknown.insert(op->result_begin(), op->result_end());
    operations.push_back(op);
  }
  if (operations.empty())
    return function.emitError() << "the loss depends on no weight that is trained";
  // The widest of the weights' dtypes, float32 at least.
  const bool hasFloat64 = llvm::any_of(function.getOps<ParamOp>(), [&](ParamOp param) {
    auto type = dyn_cast<RankedTensorType>(param.getType());
    return type && requiresGrad.contains(param) && type.getElementType().isF64();
  });
  Builder types(function);
  const Type element = hasFloat64 ? types.getF64Type() : types.getF32Type();
  builder.setLocation(operations.back()->getLoc());
  auto type = RankedTensorType::get({}, element);
  auto built = buildVjp(operations, TensorRef{loss, std::nullopt}, builder.one(*scalarTypeOf(element)),
                        reasonOfUnknown(), type);
  if (failed(built))
    return failure();
  terminator->setOperand(index, built->op.getResults().back());
  function.setType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(), terminator->getOperandTypes()));
  operationsOfLossVjp.insert(operations.begin(), operations.end());
  return success();
}

} // namespace cleave
