//===- AccumulateLoss.cpp - The loss as a sum over micro-batches ----------===//
#include "ir/DTypeCode.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/autograd/LossResult.h"
#include "partitioner/sharding/LossSplit.h"
#include "passes/Passes.h"
#include <cmath>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ACCUMULATELOSS
#include "passes/Passes.h.inc"

/// at::Reduction::Sum, as the argument of a loss.
static constexpr int64_t kReductionSum = 2;

namespace {
struct AccumulateLoss : impl::AccumulateLossBase<AccumulateLoss> {
  using AccumulateLossBase::AccumulateLossBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registerOperatorDialects(registry);
    AccumulateLossBase::getDependentDialects(registry);
  }

  void runOnOperation() override {
    const auto index = indexOfLoss(getOperation(), loss);
    if (!index)
      return signalPassFailure();
    Operation *terminator = getOperation().getBody().front().getTerminator();
    auto found = splitLoss(getOperation(), batch, terminator->getOperand(*index));
    if (auto *obstacle = std::get_if<BatchObstacle>(&found)) {
      const bool isState = isa<ReadStateOp, WriteStateOp>(obstacle->op);
      obstacle->op->emitError() << obstacle->operationName() << " " << obstacle->reason
                                << ", so gradients of micro-batches do not add up to those of the batch; use "
                                << (isState ? "a norm over each sample (layer norm, group norm), or " : "")
                                << "--microbatches 1";
      return signalPassFailure();
    }
    rewrite(std::get<LossSplit>(found), *index);
  }

private:
  Value call(OpBuilder &b, Location location, StringRef name, ValueRange operands) {
    return OperatorOp::create(b, location, name, operands, UnknownTensorType::get(&getContext()))
        ->getResult(0);
  }
  Value integer(OpBuilder &b, Location location, int64_t value) {
    return b.create<ConstantOp>(location, b.getI64Type(), b.getI64IntegerAttr(value));
  }
  Value none(OpBuilder &b, Location location) {
    return b.create<ConstantOp>(location, b.getNoneType(), b.getUnitAttr());
  }
  Value noSizes(OpBuilder &b, Location location) {
    return b.create<ConstantOp>(location, ListType::get(&getContext(), b.getI64Type()), b.getArrayAttr({}));
  }

  Value toFloat32(OpBuilder &b, Location location, Value value) {
    const Value float32 = integer(b, location, *dtypeCodeOf(b.getF32Type())),
                no = b.create<ConstantOp>(location, b.getI1Type(), b.getBoolAttr(false));
    return call(b, location, "aten.to.dtype", {value, float32, no, no, none(b, location)});
  }

  /// 1 in the place of 0: the mean of a micro-batch in which nothing counts is 0, not NaN.
  Value withoutZero(OpBuilder &b, Location location, Value divisor) {
    const Value isZero = call(b, location, "aten.eq.Scalar", {divisor, integer(b, location, 0)});
    return call(b, location, "aten.masked_fill.Scalar", {divisor, isZero, integer(b, location, 1)});
  }

  /// The divisor of a quotient of sums in float32, or NaN where the quotient is no weighted mean (divisor
  /// negative, or 0 with a sum that is not).
  Value checkedDivisor(OperatorOp quotient) {
    OpBuilder b(quotient);
    const Location location = quotient->getLoc();
    const Value sum = quotient->getOperand(0), divisor = quotient->getOperand(1),
                zero = integer(b, location, 0);
    const Value isUndefined = call(b, location, "aten.logical_and",
                                   {call(b, location, "aten.eq.Scalar", {divisor, zero}),
                                    call(b, location, "aten.ne.Scalar", {sum, zero})});
    const Value isInvalid = call(b, location, "aten.logical_or",
                                 {call(b, location, "aten.lt.Scalar", {divisor, zero}), isUndefined});
    const Value nan = b.create<ConstantOp>(location, b.getF64Type(), b.getF64FloatAttr(NAN));
    return call(b, location, "aten.masked_fill.Scalar", {toFloat32(b, location, divisor), isInvalid, nan});
  }

  /// Rewrites a weighted mean, so that it is 0 where its normalizer is 0. Returns the normalizer.
  Value makeZeroSafe(OperatorOp op) {
    OpBuilder b(op);
    const OpSemantics &semantics = semanticsOf(op.getName());
    if (!semantics.meanNormalizer) {
      const Value normalizer = checkedDivisor(op);
      op->setOperand(1, withoutZero(b, op->getLoc(), op->getOperand(1)));
      return normalizer;
    }
    const Value divisor = semantics.meanNormalizer(op, b);
    for (auto [i, argument] : llvm::enumerate(op.getSchema().arguments))
      if (argument.name == semantics.lossReduction)
        op->setOperand(i, integer(b, op->getLoc(), kReductionSum));
    b.setInsertionPointAfter(op);
    const Value safe = withoutZero(b, op->getLoc(), divisor);
    const Value mean = call(b, op->getLoc(), "aten.div.Tensor", {op->getResult(0), safe});
    op->getResult(0).replaceAllUsesExcept(mean, mean.getDefiningOp());
    return divisor;
  }

  /// The normalizer of a micro-batch, a float32 tensor of one element; null if the loss is a sum. Makes
  /// weighted means zero-safe.
  Value buildNormalizer(const LossSplit &split, OpBuilder &b, Location location) {
    const Value float32 = integer(b, location, *dtypeCodeOf(b.getF32Type()));
    if (split.reduction == Reduction::Mean) {
      const Value samples = b.create<SizeOp>(location, batch), absent = none(b, location);
      return call(b, location, "aten.full", {noSizes(b, location), samples, float32, absent, absent, absent});
    }
    Value normalizer;
    for (Operation *mean : split.weightedMeans) {
      const Value own = makeZeroSafe(OperatorOp(mean));
      // All have the same normalizer (LossSplit), but a check of each may have made it NaN, and 0 · NaN is
      // NaN.
      normalizer =
          normalizer ? call(b, location, "aten.add.Tensor", {own, normalizer, integer(b, location, 0)}) : own;
    }
    if (!normalizer)
      return {};
    normalizer = call(b, location, "aten.reshape", {normalizer, noSizes(b, location)});
    return toFloat32(b, location, normalizer);
  }

  void rewrite(const LossSplit &split, unsigned index) {
    func::FuncOp function = getOperation();
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder b(terminator);
    const Location location = terminator->getOperand(index).getLoc();
    function->setAttr(kSplitBatchAttr, b.getStringAttr(batch));
    SmallVector<Attribute> inexact;
    for (const BatchObstacle &each : split.inexact)
      inexact.push_back(b.getStringAttr(each.describe()));
    if (!inexact.empty())
      function->setAttr(kInexactLossAttr, b.getArrayAttr(inexact));
    const Value normalizer = buildNormalizer(split, b, location);
    if (!normalizer)
      return;
    const Value term = call(b, location, "aten.mul.Tensor", {terminator->getOperand(index), normalizer});
    terminator->setOperand(index, term);
    addNormalizerResult(normalizer);
    function.setType(b.getFunctionType(function.getArgumentTypes(), terminator->getOperandTypes()));
  }

  void addNormalizerResult(Value normalizer) {
    func::FuncOp function = getOperation();
    Operation *terminator = function.getBody().front().getTerminator();
    Builder b(&getContext());
    const unsigned index = terminator->getNumOperands();
    const StringAttr name = b.getStringAttr("loss_normalizer");
    terminator->insertOperands(index, normalizer);
    function.insertResult(index, normalizer.getType(),
                          b.getDictionaryAttr({b.getNamedAttr(kNameAttr, name),
                                               b.getNamedAttr(kLossNormalizerAttr, b.getUnitAttr())}));
    if (Attribute outputs = function->getAttr(kOutputTreeAttr))
      function->setAttr(kOutputTreeAttr,
                        nodeTree(b, "dict", {b.getStringAttr("outputs"), outputs, name, leafTree(b, index)}));
  }
};
} // namespace

} // namespace cleave
