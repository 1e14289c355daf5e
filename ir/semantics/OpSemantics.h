//===- OpSemantics.h - Semantics of operators -------------------*- C++ -*-===//
//
// The one table of operator knowledge: cost, views, effects, and how dimensions of operands and results
// relate. Every pass and search reads it; none knows operators by name. One file per operator family;
// docs/adding-an-op.md shows how to add an operator.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_SEMANTICS_OPSEMANTICS_H
#define CLEAVE_IR_SEMANTICS_OPSEMANTICS_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/IndexMap.h"
#include "ir/semantics/KernelKinds.h"
#include "ir/semantics/KeyedDraw.h"
#include "ir/semantics/ListChange.h"
#include "ir/semantics/OpShardingRule.h"
#include "ir/semantics/PermutationRole.h"
#include "ir/semantics/ShardedForm.h"

namespace cleave {

/// On a function of the training forecast: random calls count as deterministic, so that the batch may be
/// split, and each rank and micro-batch draws its own numbers. Not set on functions that are compiled with
/// --train.
inline constexpr llvm::StringLiteral kTrainingAttr = "cleave.training";

/// The dtype of an operator's result.
enum class ResultDType {
  Promoted, ///< the promoted dtype of its tensor operands
  First,    ///< that of its first operand
  Bool,
};

/// In which of its floating-point tensor operands the result is linear, with the others fixed.
enum class Linearity {
  None,
  All,   ///< in all together: a sum, a view
  Each,  ///< in each: a product
  First, ///< in the first: a quotient
};

/// How the result of a reduction follows from the results of parts of its Reduce factors.
enum class Reduction {
  Other,
  Sum,          ///< their sum
  Mean,         ///< their mean, weighted by the elements of each part
  WeightedMean, ///< their mean, weighted by OpSemantics::meanNormalizer of each part
};

struct OpSemantics {
  /// The table has an entry. Without one an operator is legal, is never sharded, and is reported.
  bool isKnown = false;
  /// Unused calls must stay: the operator throws, prints or writes.
  bool hasSideEffects = false;
  /// The operator ends the request: `raise(message, class)`.
  bool raises = false;
  /// The result shares its operand's storage; the operator costs nothing.
  bool isView = false;
  /// The result has the values of its operand, in the operand's storage or in its own (contiguous, reshape).
  bool mayBeView = false;
  /// The result may be the first operand itself, although the schema does not say so.
  bool mayReturnOperand = false;
  /// The results are pieces of the first operand; they cover it and do not overlap.
  bool splitsOperand = false;
  /// Argument that, if true, makes the operator write the running statistics among its operands, although the
  /// schema does not say so.
  llvm::StringLiteral statisticsFlag = "";
  /// For an operator with statisticsFlag: the operator that returns the new running mean and variance as
  /// results 3 and 4 instead of writing operands 3 and 4. It has the same first eight arguments, of which the
  /// statistics must be given. Empty: none.
  llvm::StringLiteral functionalBatchNorm = "";
  /// For an operator that writes its first operand although its schema does not say so: the operator whose
  /// schema declares that mutation. Empty for other operators.
  llvm::StringLiteral declaredForm = "";
  ListChange listChange = ListChange::None;
  ResultDType resultDType = ResultDType::Promoted;
  /// The result is contiguous, whatever the strides of the first operand. Not reshape, which is a view if
  /// possible.
  bool givesContiguous = false;
  /// The result is the first operand, and takes no part in gradients. Not folded before gradients are found.
  bool stopsGradients = false;
  /// A view that permutes the dimensions.
  bool permutes = false;
  /// The result has the values of its operand in the dtype that the call names; it shares the operand's
  /// storage if that has the dtype.
  bool isCast = false;
  /// A contraction: sums of products of its floating-point tensors, all of one dtype, perhaps a narrow one.
  /// Sums accumulate in float32 and are rounded to that dtype. Such an operator has `flops`.
  bool isContraction = false;
  /// If operands are sharded along a Reduce factor, the result is the sum of the ranks' results, except that
  /// only one of them may add `addend`. Without this flag a Reduce factor cannot be sharded.
  bool isSumOverReduceFactors = false;
  /// For an operator with isSumOverReduceFactors: each part is weighted by its share of the elements
  /// averaged.
  bool isMean = false;
  Linearity linearity = Linearity::None;
  /// Of a loss: the argument that is 0 for no reduction, 1 for the mean, 2 for the sum.
  llvm::StringLiteral lossReduction = "";
  /// Of a loss whose mean over class indices (operand 1) is not one over elements: builds the divisor of the
  /// mean, a tensor of one element, at the builder's insertion point. It does not depend on operand 0.
  mlir::Value (*meanNormalizer)(OperatorOp op, mlir::OpBuilder &builder) = nullptr;
  /// Tensor argument of a contraction that may have a wider dtype than the others.
  llvm::StringLiteral widerArgument = "";
  /// Tensor argument that is added to a contraction: a bias or, if it is no weight, perhaps a mask.
  llvm::StringLiteral addend = "";
  /// Argument that scales addend.
  llvm::StringLiteral addendScale = "";
  /// Each element of the result depends only on scalar arguments and on the operands' elements at its
  /// position, after broadcasting.
  bool isElementwise = false;
  /// For an addition, operand 0 + s · operand 1: the argument s. A sum over ranks may be taken before or
  /// after such an operator.
  llvm::StringLiteral addScale = "";
  /// Types of results follow from types of operands and scalar arguments alone, whatever the tensors hold. If
  /// it has no meta kernel, it may be tried on zeros.
  bool hasStaticResultTypes = false;
  /// The result holds uninitialised memory.
  bool isUninitialized = false;
  /// Reads no more elements of its first operand than it writes: lookups and gathers.
  bool readsSparsely = false;
  /// Every element of the result is an element of the first operand, in its dtype, taken by index: lookups
  /// and gathers.
  bool isLookup = false;
  /// Makes a tensor from sizes alone; an operand gives only dtype and device.
  bool readsNoElements = false;
  /// Argument with the sizes of a result, or the repeats of each of its dimensions; and that result.
  llvm::StringLiteral sizes = "";
  unsigned sizesResult = 0;
  /// For a view of one range of dimension `dim`: the arguments with the start and the length of the range.
  llvm::StringLiteral rangeStart = "", rangeLength = "";
  /// Argument with the ranges of a dimension that the result holds, as pairs of start and length.
  llvm::StringLiteral ranges = "";
  /// Argument with the number of channel groups; the sharding rule's factor `channelGroups` has that size.
  llvm::StringLiteral groups = "";
  /// For a call whose result is 0, 1, …, n - 1 (arange(n) with start 0 and step 1): the operand n; null for
  /// other calls.
  mlir::Value (*arangeEnd)(OperatorOp op) = nullptr;
  /// Role in a token permutation (see partitioner/sharding/TokenPermutation.h).
  PermutationRole permutationRole = PermutationRole::None;
  /// For PermutationRole::Histogram: the n for which the integers 0 … n - 1 each have a bin of their own;
  /// nothing if the bins are others.
  std::optional<int64_t> (*integerBins)(OperatorOp op) = nullptr;
  /// The last result holds indices of dimension `dim` of the first operand.
  bool lastResultIsIndices = false;
  /// For a random operator: the argument with the drop probability; at 0 the operator is deterministic.
  llvm::StringLiteral dropProbability = "";
  /// Works only on sizes and scalars.
  bool isScalar = false;
  /// Prepacks weights into a form that only other operators can read.
  bool prepacksWeights = false;
  /// For `list[i]` or `tuple[i]`: the argument `i`.
  llvm::StringLiteral item = "";
  /// The operand that the result equals (dropout when not training); null if this call changes it.
  mlir::Value (*identityOf)(OperatorOp op) = nullptr;
  /// Floating-point operations; null: one per element of the largest result.
  double (*flops)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// The contraction that `flops` counts, as a GEMM; null or nothing if there is none of known shape.
  std::optional<GemmShape> (*gemm)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// No gradient goes through the call.
  bool hasNoGradient = false;
  /// The first of the results through which no gradient goes (new running statistics), if any.
  std::optional<unsigned> firstResultWithoutGradient = std::nullopt;
  /// Argument that, unless false, makes the gradient depend on how often an index occurs in the whole batch.
  llvm::StringLiteral frequencyScaling = "";
  /// The kernels of its backward pass read rows of the result's gradient without gaps.
  bool needsContiguousGradient = false;
  /// Bytes that the kernels of GPUs save besides operands and results, where those of CPUs save more; null:
  /// the same on both.
  int64_t (*savedBytes)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// The collective that it is.
  std::optional<CollectiveKind> collective = std::nullopt;
  /// Bytes of workspace besides the results, on `threads` threads of a CPU; null: none.
  int64_t (*workspaceBytes)(OperatorOp op, const ExampleShapes &shapes, int64_t threads) = nullptr;
  /// For a call with a factor of the kind Composed: builds its results on a rank that has a range of it.
  llvm::SmallVector<mlir::Value> (*shardedForm)(OperatorOp op, const ShardedForm &form) = nullptr;
  /// Sharding rule; null or nothing: every operand is needed whole. Call opShardingRuleOf.
  std::optional<OpShardingRule> (*shardingRule)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// Index map of the dimension that the call concatenates, slices or reorders; null or nothing: not known.
  /// Call indexMapOf.
  std::optional<IndexMap> (*indexMap)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// For a random operator: builds its result from numbers that are drawn by key and index; returns null if
  /// this call has no such form. Without this function none has one: a generator draws.
  mlir::Value (*keyedForm)(OperatorOp op, const KeyedDraw &draw) = nullptr;
  /// Draws by key and index (random/RandomOperators.h): the same numbers at every call.
  bool drawsByKey = false;
  /// For an operator without a derivative, with one that plans may not call, or with random numbers inside:
  /// its results, by other operators; nothing if this call stays.
  llvm::SmallVector<mlir::Value> (*differentiableForm)(OperatorOp op, mlir::OpBuilder &builder) = nullptr;
  /// Its backward pass is a `cleave.vjp` of the call, since only kernels of the same device can read what the
  /// forward pass saves.
  bool isDifferentiatedByAutograd = false;
  /// For the call inside that `cleave.vjp`: bytes that it needs besides its results, on a CPU; null or
  /// nothing: not known.
  std::optional<int64_t> (*autogradBytes)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// For a view: the operator that writes a changed view back into its base, such as `aten.slice_scatter` for
  /// `aten.slice` (same arguments, with the new value second). Empty: there is none; see viewInverse.
  llvm::StringLiteral scatterForm = "";
  /// For a view or a list of views that covers its whole base: makes the base's new value from the view's.
  mlir::Value (*viewInverse)(OperatorOp view, mlir::Value changed, mlir::OpBuilder &builder) = nullptr;
};

/// The entry of an operator, by IR name with or without overload; an entry with isKnown = false if there is
/// none.
const OpSemantics &semanticsOf(llvm::StringRef irName);

/// True for an operator that only autograd calls: the backward pass of another one, or a forward pass that
/// also gives what that needs.
bool isOfAutograd(llvm::StringRef irName);

/// How the results of parts of the operands give the result of the call.
Reduction reductionOf(OperatorOp op);

/// The sharding rule of one call; nothing if every operand is needed whole.
std::optional<OpShardingRule> opShardingRuleOf(OperatorOp op, const ExampleShapes &shapes);

/// The index map of one call; nothing if it is not known.
std::optional<IndexMap> indexMapOf(OperatorOp op, const ExampleShapes &shapes);

/// True if the operation prepacks weights and takes only parameters, constants and results of such
/// operations. It runs once, when a plan is loaded, in each stage that needs it.
bool prepacksWeights(mlir::Operation *op);

/// True if the operation takes an item of its first operand, a list, tuple or dict.
bool isItemAccess(mlir::Operation *op);

/// Index of the item that it takes; nothing if it is not constant, or counts from the end.
std::optional<unsigned> constantItem(OperatorOp access);

/// True if two calls with the same operands may give different results.
bool isRandom(OperatorOp op);

/// Floating-point operations of any operation, and bytes that it reads and writes; zero for views, scalars
/// and structural operations.
struct OpWork {
  double flops = 0;
  double bytes = 0;
};
OpWork workOf(mlir::Operation *op, const ExampleShapes &shapes);

/// A `cleave.vjp` runs its region forward, and twice as much for gradients of inputs and of weights.
inline constexpr int kVjpRuns = 3;

/// Bytes that a `cleave.vjp` of one call needs besides its results; nothing if they are not known, or it is
/// one of other operations.
std::optional<int64_t> autogradBytesOf(VjpOp op, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_OPSEMANTICS_H
