//===- Idioms.h - Sequences that one operator of ATen does ------*- C++ -*-===//
//
// Private to passes/. One file a pattern; each says what it matches, what it makes of it, and the measured
// gain: GPT-2's shapes where none are given, float32, one thread of an AMD EPYC with AVX-512, torch 2.11.0.
//
// Patterns match operators only, so that a module boundary that is kept ends every idiom.
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

/// The operations of one match. Reading a value through `make` notes what made it.
class Match {
public:
  /// The operator that makes `value`, if its name without overload is one of `names`; null otherwise.
  OperatorOp made(mlir::Value value, std::initializer_list<llvm::StringRef> names);
  void add(mlir::Operation *op) { ops.insert(op); }
  /// Whether all of it stands in one block and nobody but `root`'s users takes anything of it: then `root`
  /// replaced, the others are dead.
  bool isReplacedWith(mlir::Operation *root) const;

private:
  llvm::SetVector<mlir::Operation *> ops;
};

/// The number that `value` is: a scalar constant, or a tensor without dimensions that is constant or filled
/// with one.
std::optional<double> numberOf(mlir::Value value);
/// Whether two constants are the same to a computation in `element`, though written with fewer digits.
bool isSameNumber(double found, double expected, mlir::Type element);
/// Two operands of which one is a number.
struct NumberAndValue {
  double number;
  mlir::Value value;
};
std::optional<NumberAndValue> withNumber(OperatorOp op);
/// `a + b` without a factor (alpha); for aten.add.
bool isPlainSum(OperatorOp add);

/// A tensor of float32 or float64 whose type is known; null for others. In these, fused operators compute in
/// the dtype that the sequence did; in narrower ones they round less often.
mlir::RankedTensorType floatTensor(mlir::Value value);
/// Same dtype and sizes, whatever the strides.
bool isSameShape(mlir::Type left, mlir::Type right);
/// Whether dimension `left` of one tensor and `right` of another are of one size, by number or name.
bool isSameSize(mlir::RankedTensorType a, int64_t left, mlir::RankedTensorType b, int64_t right);
/// Whether elements of the last dimension but `back` stand one behind the other.
bool hasUnitStride(mlir::RankedTensorType type, int64_t back = 0);
/// Whether `argument` of `op` names the dimension `dim` (from the end: −1 is the last) of a tensor of this
/// rank.
bool isDim(OperatorOp op, llvm::StringRef argument, int64_t dim, int64_t rank);

/// Makes operators with constants as arguments, at one place. Types of intermediate results are left to
/// infer-types.
class Maker {
public:
  Maker(mlir::PatternRewriter &rewriter, mlir::Operation *at) : rewriter(rewriter), loc(at->getLoc()) {
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
