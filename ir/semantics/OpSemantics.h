//===- OpSemantics.h - What is known of each operator -----------*- C++ -*-===//
//
// The one table of operator knowledge: cost, views, effects, and how dimensions of operands and results
// relate. Every pass and search reads it and none knows operators by name. One file an operator family;
// docs/adding-an-op.md shows how to add one.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_SEMANTICS_OPSEMANTICS_H
#define CLEAVE_IR_SEMANTICS_OPSEMANTICS_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/DimensionRule.h"
#include "ir/semantics/IndexMap.h"
#include "ir/semantics/KernelKinds.h"
#include "ir/semantics/PermutationRole.h"

namespace cleave {

/// On the function: it is trained. Random numbers may then be any, as dropout's are: each rank and
/// micro-batch draws its own.
inline constexpr llvm::StringLiteral kTrainingAttr = "cleave.training";

/// What the backward pass of an operator reads of its forward pass, as PyTorch's derivatives.yaml has it.
enum class SavedForBackward {
  Operands,       ///< all tensors that it takes
  Nothing,        ///< sizes at most
  Passes,         ///< nothing, and gradients go on as they are, summed where operands were broadcast
  First,          ///< its first operand
  Result,         ///< its result
  FirstAndResult, ///< both
  Factors,        ///< each factor of a product for the gradients of the others
  Attention,      ///< operands and result
  Integers,       ///< operands that have no gradients: indices, masks
  Positions,      ///< results that have none: where the greatest were
  NoGradient,     ///< results have no gradients
};

/// The dtype of an operator's result.
enum class ResultDType {
  Promoted, ///< what the tensors that it takes promote to
  First,    ///< its first operand's
  Bool,
};

struct OpSemantics {
  /// Whether the table has an entry; without one an operator is legal, unsplit, and reported.
  bool isKnown = false;
  /// Unused calls must stay: it throws, prints or writes.
  bool hasSideEffects = false;
  /// It ends the request: `raise(message, class)`.
  bool raises = false;
  /// The result shares its operand's storage and costs nothing.
  bool isView = false;
  /// The result has the values of its operand in a storage of its own, or not, as contiguous and reshape do.
  bool mayBeView = false;
  /// The result may be the first operand itself, though the schema does not say so.
  bool mayReturnOperand = false;
  /// Results are pieces of the first operand, which cover it and do not overlap.
  bool givesPieces = false;
  /// The argument that, where it is true, has the running statistics among its operands written, though the
  /// schema does not say so.
  llvm::StringLiteral writesStatistics = "";
  ResultDType resultDType = ResultDType::Promoted;
  /// The result is laid out the same whatever the strides of the first operand: contiguous. Not reshape,
  /// which is a view where it can be.
  bool takesAnyLayout = false;
  /// A view with the dimensions in another order.
  bool permutes = false;
  /// The result has the values of its operand in the dtype that the call names, and shares its storage where
  /// that has it.
  bool isCast = false;
  /// Sums of products of its floating-point tensors, which may be of a narrow dtype, all of the same: sums
  /// are made in float32 all the same, and the result is rounded to that dtype. Such an operator has `flops`.
  bool isContraction = false;
  /// Along its Reduce factors the result is the sum of what parts of the operands give, addedArgument added
  /// once.
  bool sumsParts = false;
  /// Of an operator that sums parts: each part counts by its share of what is averaged.
  bool isMean = false;
  /// The tensor argument of a product that may have a wider dtype than the others.
  llvm::StringLiteral wideArgument = "";
  /// The tensor argument of a product that is added to it: a bias or, where it is no weight, perhaps a mask.
  llvm::StringLiteral addedArgument = "";
  /// The argument that scales addedArgument.
  llvm::StringLiteral addedScale = "";
  /// An element of the result follows from scalar arguments and from the elements of operands, broadcast, at
  /// its position.
  bool isElementwise = false;
  /// The result is the first operand plus the second times this argument: linear in both.
  llvm::StringLiteral sumScale = "";
  /// Types of results follow from types of operands and scalar arguments alone, whatever the tensors hold:
  /// where it has no kernel for the meta device it may be tried on zeros.
  bool hasTypesOfOperands = false;
  /// The result holds whatever was in memory.
  bool isUninitialized = false;
  /// Reads no more of its first operand than it writes: lookups and gathers.
  bool readsSparsely = false;
  /// Every element of the result is one of the first operand's, in its dtype, taken by position: lookups and
  /// gathers.
  bool isLookup = false;
  /// Makes a tensor from sizes alone; an operand gives dtype and device.
  bool readsNoElements = false;
  /// The argument that says how large the result is, or how often each dimension is repeated.
  llvm::StringLiteral sizes = "";
  /// Of a view of one range of dimension `dim`: the arguments that say where that begins, and how long it is.
  llvm::StringLiteral rangeStart = "", rangeLength = "";
  /// Name of the argument that lists which ranges of a dimension the result holds, as pairs of start and
  /// length.
  llvm::StringLiteral ranges = "";
  /// The argument that says into how many groups channels are divided: the positions of its rule's factor
  /// `groups`.
  llvm::StringLiteral groups = "";
  /// For a call whose values are the positions 0, 1, … along its one dimension: up to which operand; null
  /// value when this call counts otherwise.
  mlir::Value (*countsTo)(OperatorOp op) = nullptr;
  /// What it does to sorted rows (see partitioner/sharding/TokenPermutation.h).
  PermutationRole permutationRole = PermutationRole::None;
  /// For PermutationRole::Count: how many whole numbers, from 0 on, have a bin of their own each; nothing
  /// where bins are others.
  std::optional<int64_t> (*countedNumbers)(OperatorOp op) = nullptr;
  /// The last result holds positions in dimension `dim` of the first operand.
  bool givesPositions = false;
  /// For a random operator: the argument that, where it is 0, leaves nothing to chance.
  llvm::StringLiteral chance = "";
  /// Works on sizes and scalars only.
  bool isScalar = false;
  /// Turns weights into a form that other operators compute with, and nothing else can read.
  bool prepacksWeights = false;
  /// Of `list[i]` or `tuple[i]`: the argument that is `i`.
  llvm::StringLiteral item = "";
  /// The operand that the result is, unchanged (dropout when not training); null value when this call changes
  /// it.
  mlir::Value (*identityOf)(OperatorOp op) = nullptr;
  /// Floating-point operations; null: one an element of the largest result.
  double (*flops)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// The products of matrices that `flops` are; null or nothing: none whose shape is known.
  std::optional<GemmShape> (*product)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// What the backward pass keeps (Gradients.cpp sets it for all families; call backwardOf).
  SavedForBackward saved = SavedForBackward::Operands;
  /// … and beside that, bytes; null: none.
  int64_t (*keptBytes)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// What the ranks of a tensor group do together.
  std::optional<CollectiveKind> collective = std::nullopt;
  /// Bytes allocated while it runs on so many threads of a CPU beyond its results; null: none.
  int64_t (*workspaceBytes)(OperatorOp op, const ExampleShapes &shapes, int64_t threads) = nullptr;
  /// How dimensions relate (call dimensionRuleOf); null or nothing: every operand is needed whole.
  std::optional<DimensionRule> (*dimensions)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// Where positions of the dimension come from that the call joins, cuts or reorders; null or nothing: not
  /// known.
  std::optional<IndexMap> (*positions)(OperatorOp op, const ExampleShapes &shapes) = nullptr;
  /// For a view: the operator that writes a changed view back into its base, as `aten.slice_scatter` for
  /// `aten.slice` (same arguments with the new value second). Empty: no such operator; see also viewBack.
  llvm::StringLiteral scatter = "";
  /// For a view, or a list of views, that covers its whole base: the base's new value from the view's.
  mlir::Value (*viewBack)(OperatorOp view, mlir::Value changed, mlir::OpBuilder &builder) = nullptr;
};

/// The entry of an operator by IR name, or by its name without overload; one with isKnown = false if there is
/// none.
const OpSemantics &semanticsOf(llvm::StringRef irName);

/// The rule of one call; nothing where every operand is needed whole.
std::optional<DimensionRule> dimensionRuleOf(OperatorOp op, const ExampleShapes &shapes);

/// Where one call takes the positions of a dimension from; nothing where that is not known.
std::optional<IndexMap> indexMapOf(OperatorOp op, const ExampleShapes &shapes);

/// Whether the operation prepares weights and takes nothing but parameters, constants and others of its kind:
/// it is done once, when a plan is loaded, by each stage that needs it.
bool prepacksWeights(mlir::Operation *op);

/// Whether the operation takes an item of its first operand, a list, tuple or dict.
bool isItemAccess(mlir::Operation *op);

/// Which item of a list or tuple it takes; nothing where that is not constant or counted from the end.
std::optional<unsigned> constantItem(OperatorOp access);

/// Whether two calls with the same operands may give different numbers.
bool isRandom(OperatorOp op);

/// Floating-point operations of any operation, and bytes it reads and writes; zero for views, scalars and
/// structure.
struct OpWork {
  double flops = 0;
  double bytes = 0;
};
OpWork workOf(mlir::Operation *op, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_OPSEMANTICS_H
