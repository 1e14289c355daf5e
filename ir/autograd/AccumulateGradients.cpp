//===- AccumulateGradients.cpp - Sums over micro-batches ------------------===//
#include "ir/autograd/AccumulateGradients.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "ir/autograd/Differentiate.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {

std::string trainingStateName(func::FuncOp function, StringRef name) {
  std::string unique = name.str();
  while (llvm::any_of(function.getOps<ReadStateOp>(),
                      [&](ReadStateOp state) { return state.getName() == unique; }))
    unique = "train." + unique;
  return unique;
}

/// Splits the gradient of a weight with several uses into its terms, in the order of the sum.
static SmallVector<Value> termsOf(Value gradient) {
  SmallVector<Value> terms;
  for (;;) {
    auto sum = gradient.getDefiningOp<OperatorOp>();
    const Value scale = sum ? sum.getArgument(semanticsOf(sum.getName()).addScale) : Value();
    llvm::APInt factor;
    const bool isSum = scale && gradient.hasOneUse() && matchPattern(scale, m_ConstantInt(&factor)) &&
                       factor == 1 && sum->getOperand(0).getType() == gradient.getType() &&
                       sum->getOperand(1).getType() == gradient.getType();
    terms.push_back(isSum ? sum->getOperand(1) : gradient);
    if (!isSum)
      break;
    gradient = sum->getOperand(0);
  }
  std::reverse(terms.begin(), terms.end());
  return terms;
}

namespace {
/// What `differentiate` has left among the results.
struct Results {
  Value loss, normalizer;
  llvm::MapVector<ParamOp, Value> gradients;
};
} // namespace

static FailureOr<Results> resultsOf(func::FuncOp function) {
  llvm::StringMap<ParamOp> params;
  for (ParamOp param : function.getOps<ParamOp>())
    params.try_emplace(param.getName(), param);
  Results found;
  for (OpOperand &result : function.getBody().front().getTerminator()->getOpOperands()) {
    if (function.getResultAttr(result.getOperandNumber(), kLossAttr))
      found.loss = result.get();
    if (function.getResultAttr(result.getOperandNumber(), kLossNormalizerAttr))
      found.normalizer = result.get();
    auto attribute = function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), kNameAttr);
    StringRef name = attribute ? attribute.getValue() : "";
    if (auto param = name.consume_front(gradientName("")) ? params.lookup(name) : ParamOp())
      found.gradients[param] = result.get();
  }
  if (!found.loss)
    return function.emitError() << "found no loss among the results, expected a function with gradients; run "
                                << "differentiate first";
  if (found.gradients.empty())
    return function.emitError() << "found no gradient of a weight";
  for (auto &[weight, gradient] : found.gradients)
    if (isa<ComplexType>(cast<RankedTensorType>(gradient.getType()).getElementType()))
      return weight.emitError()
             << "weight '" << weight.getName()
             << "' is complex, which optimizers do not support; exclude it with --trainable";
  return found;
}

LogicalResult accumulateGradients(func::FuncOp function) {
  FailureOr<Results> found = resultsOf(function);
  if (failed(found))
    return failure();
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder b(terminator);
  auto accumulate = [&](Location location, StringRef name, Value term, ShardingAttr shard) {
    OpBuilder::InsertionGuard guard(b);
    if (term.getDefiningOp())
      b.setInsertionPointAfterValue(term);
    return b.create<AccumulateOp>(location, trainingStateName(function, name), term, shard);
  };
  for (auto &[weight, gradient] : found->gradients)
    for (Value term : termsOf(gradient))
      accumulate(weight.getLoc(), gradientName(weight.getName()), term, weight.getShardAttr())
          ->setAttr(kGradientAttr, b.getUnitAttr());
  accumulate(terminator->getLoc(), kLossSum, found->loss, ShardingAttr());
  if (found->normalizer)
    accumulate(terminator->getLoc(), kNormalizerSum, found->normalizer, ShardingAttr());
  terminator->setOperands(found->loss);
  function.eraseResults(llvm::BitVector(function.getNumResults(), true));
  function.insertResult(0, found->loss.getType(),
                        b.getDictionaryAttr({b.getNamedAttr(kLossAttr, b.getUnitAttr()),
                                             b.getNamedAttr(kNameAttr, b.getStringAttr("loss"))}));
  function->setAttr(kOutputTreeAttr, nodeTree(b, "dict", {b.getStringAttr("loss"), leafTree(b, 0)}));
  return success();
}

} // namespace cleave
