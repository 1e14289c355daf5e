//===- AccumulateLoss.cpp - The loss as a sum over micro-batches ----------===//
#include "ir/DTypeCode.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "ir/autograd/LossResult.h"
#include "partitioner/sharding/LossSplit.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ACCUMULATELOSS
#include "passes/Passes.h.inc"

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
                                << (isState ? "norms without running statistics, or " : "")
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

  /// 1 in the place of 0: the quotient of a part in which nothing counts is 0, not NaN.
  Value withoutZero(OpBuilder &b, Location location, Value divisor) {
    const Value isZero = call(b, location, "aten.eq.Scalar", {divisor, integer(b, location, 0)});
    return call(b, location, "aten.masked_fill.Scalar", {divisor, isZero, integer(b, location, 1)});
  }

  /// Gives the quotient a divisor that is not 0. Returns the divisor that it had.
  Value guard(OperatorOp op) {
    OpBuilder b(op);
    const OpSemantics &semantics = semanticsOf(op.getName());
    if (!semantics.meanWeight) {
      const Value divisor = op->getOperand(1);
      op->setOperand(1, withoutZero(b, op->getLoc(), divisor));
      return divisor;
    }
    const Value divisor = semantics.meanWeight(op, b);
    for (auto [i, argument] : llvm::enumerate(op.getSchema().arguments))
      if (argument.name == semantics.lossReduction)
        op->setOperand(i, integer(b, op->getLoc(), 2));
    b.setInsertionPointAfter(op);
    const Value safe = withoutZero(b, op->getLoc(), divisor);
    const Value mean = call(b, op->getLoc(), "aten.div.Tensor", {op->getResult(0), safe});
    op->getResult(0).replaceAllUsesExcept(mean, mean.getDefiningOp());
    return divisor;
  }

  /// The weight of a part, a float32 of one element; null if parts are added as they are.
  Value weightOf(const LossSplit &split, OpBuilder &b, Location location) {
    const Value float32 = integer(b, location, *dtypeCodeOf(b.getF32Type()));
    if (split.reduction == Reduction::Mean) {
      const Value samples = b.create<SizeOp>(location, batch), absent = none(b, location);
      return call(b, location, "aten.full", {noSizes(b, location), samples, float32, absent, absent, absent});
    }
    Value divisor;
    for (Operation *quotient : split.quotients)
      divisor = guard(OperatorOp(quotient));
    if (!divisor)
      return {};
    const Value no = b.create<ConstantOp>(location, b.getI1Type(), b.getBoolAttr(false));
    if (auto type = dyn_cast<RankedTensorType>(divisor.getType()); type && type.getRank() > 0)
      divisor = call(b, location, "aten.reshape", {divisor, noSizes(b, location)});
    return call(b, location, "aten.to.dtype", {divisor, float32, no, no, none(b, location)});
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
    const Value weight = weightOf(split, b, location);
    if (!weight)
      return;
    const Value term = call(b, location, "aten.mul.Tensor", {terminator->getOperand(index), weight});
    terminator->setOperand(index, term);
    addWeight(weight);
    function.setType(b.getFunctionType(function.getArgumentTypes(), terminator->getOperandTypes()));
  }

  void addWeight(Value weight) {
    func::FuncOp function = getOperation();
    Operation *terminator = function.getBody().front().getTerminator();
    Builder b(&getContext());
    const unsigned index = terminator->getNumOperands();
    const StringAttr name = b.getStringAttr("loss_weight");
    terminator->insertOperands(index, weight);
    function.insertResult(index, weight.getType(),
                          b.getDictionaryAttr({b.getNamedAttr(kNameAttr, name),
                                               b.getNamedAttr(kLossWeightAttr, b.getUnitAttr())}));
    if (Attribute outputs = function->getAttr(kOutputTreeAttr))
      function->setAttr(kOutputTreeAttr,
                        nodeTree(b, "dict", {b.getStringAttr("outputs"), outputs, name, leafTree(b, index)}));
  }
};
} // namespace

} // namespace cleave
