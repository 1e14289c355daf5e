//===- Idioms.h - Operator sequences that ATen can fuse ---------*- C++ -*-===//
//
// Private to passes/. One file per pattern. Each says what it matches, what it makes, and the measured gain:
// in float32, on one thread of an AMD EPYC with AVX-512, torch 2.11.0, with GPT-2's shapes if none are given.
//
// Patterns match operators only, so a module boundary that is kept ends every idiom.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_IDIOMS_IDIOMS_H
#define CLEAVE_PASSES_IDIOMS_IDIOMS_H

#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

void addTanhGelu(mlir::RewritePatternSet &patterns);
void addRmsNorm(mlir::RewritePatternSet &patterns);
void addRotary(mlir::RewritePatternSet &patterns);
void addAttention(mlir::RewritePatternSet &patterns);
void addGroupedAttention(mlir::RewritePatternSet &patterns);

/// The operations of one match. `producerOf` adds the operator that it returns.
class Match {
public:
  /// The operator that makes `value`, if its name without overload is one of `names`; null otherwise.
  OperatorOp producerOf(mlir::Value value, std::initializer_list<llvm::StringRef> names);
  void add(mlir::Operation *op) { ops.insert(op); }
  /// True if all operations are in one block and only `root` has users outside the match, so that the others
  /// are dead once `root` is replaced.
  bool onlyRootEscapes(mlir::Operation *root) const;

private:
  llvm::SetVector<mlir::Operation *> ops;
};

/// The number that `value` is: a scalar constant, or a 0-d tensor that is constant or filled with a constant.
std::optional<double> numberOf(mlir::Value value);
/// True if two constants are equal at the precision of `element`, though one was written with fewer digits.
bool isSameNumber(double found, double expected, mlir::Type element);
/// Two operands, one of which is a number.
struct NumberAndValue {
  double number;
  mlir::Value value;
};
std::optional<NumberAndValue> withNumber(OperatorOp op);
/// True if aten.add has no scale (alpha).
bool isPlainSum(OperatorOp add);

/// The type of a float32 or float64 tensor; null for others. In these dtypes a fused operator computes in the
/// same dtype as the sequence; in narrower ones it rounds less often.
mlir::RankedTensorType floatTensor(mlir::Value value);
/// True for equal dtypes and sizes; strides may differ.
bool isSameShape(mlir::Type left, mlir::Type right);
/// True if dimension `left` of `a` and dimension `right` of `b` have the same size, as a number or by name.
bool isSameSize(mlir::RankedTensorType a, int64_t left, mlir::RankedTensorType b, int64_t right);
/// True if the dimension `back` positions before the last one has stride 1.
bool hasUnitStride(mlir::RankedTensorType type, int64_t back = 0);
/// True if `argument` of `op` names dimension `dim` of a tensor of this rank; `dim` counts from the end, −1
/// is the last.
bool isDim(OperatorOp op, llvm::StringRef argument, int64_t dim, int64_t rank);

/// Creates operators with constant arguments before one operation. Types of intermediate results are left to
/// infer-types.
class OperatorBuilder {
public:
  OperatorBuilder(mlir::PatternRewriter &rewriter, mlir::Operation *at)
      : rewriter(rewriter), loc(at->getLoc()) {
    rewriter.setInsertionPoint(at);
  }
  mlir::Value call(llvm::StringRef name, mlir::ValueRange operands, mlir::Type type = {});
  mlir::Value list(mlir::ValueRange tensors);
  mlir::Value integer(int64_t value);
  mlir::Value integers(llvm::ArrayRef<int64_t> values);
  mlir::Value real(double value);
  mlir::Value boolean(bool value);
  mlir::Value string(llvm::StringRef value);
  mlir::Value none();

private:
  mlir::PatternRewriter &rewriter;
  mlir::Location loc;
};

} // namespace cleave

#endif // CLEAVE_PASSES_IDIOMS_IDIOMS_H
