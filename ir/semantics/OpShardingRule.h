//===- OpShardingRule.h - Sharding rules of operators -----------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_OPSHARDINGRULE_H
#define CLEAVE_IR_SEMANTICS_OPSHARDINGRULE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

/// What sharding a factor over ranks requires.
enum class FactorKind {
  PassThrough,      ///< in operands and results: no communication
  Reduce,           ///< in operands only: results are partial sums if OpSemantics::isSumOverReduceFactors;
                    ///< otherwise it must be whole
  Lookup,           ///< indexed by an operand: indices are masked, results are partial sums
  Composed,         ///< each rank computes its range by OpSemantics::shardedForm
  Broadcast,        ///< in results only: each rank makes its shard
  Scan,             ///< a scan: slices run in order, with a carried state
  Halo,             ///< needs neighbouring elements
  NeedsReplication, ///< must be whole: needs an all-gather
};

/// Sharding rule of one operator call: its factors, and for each dimension of each operand and result the
/// factors whose product it is, major to minor. An operand that is no tensor has no dimensions. Operands are
/// those of `flatOperands` (Shapes.h), where the items of a list made in the function replace it. A result
/// that is a list has the dimensions of each of its items.
///
/// The form is that of Shardy's op sharding rule (pass-through, reduction, need-replication factors).
struct OpShardingRule {
  struct Factor {
    FactorKind kind;
    int64_t size;
    bool operator==(const Factor &) const = default;
  };
  using Dim = llvm::SmallVector<unsigned, 1>;
  using Dims = llvm::SmallVector<Dim>;
  /// Dimension `tableDim` of operand `tableOperand` is indexed by the values of operand `indicesOperand`, as
  /// in aten.index. The dimension has a NeedsReplication factor, unlike the one of a Lookup factor. Where the
  /// indices are known to be 0, 1, 2, … (an arange), users of the rule may treat it as PassThrough.
  struct IndexedDim {
    unsigned indicesOperand, tableOperand, tableDim;
    bool operator==(const IndexedDim &) const = default;
  };
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands, results;
  llvm::SmallVector<IndexedDim, 0> indexedDims;
  /// Results that are partial sums if `factor` is sharded, although it passes through to other results.
  /// Example: gradients of a layer norm's weights, summed over rows. For an operator with
  /// isSumOverReduceFactors.
  struct PartialResult {
    unsigned result, factor;
    bool operator==(const PartialResult &) const = default;
  };
  llvm::SmallVector<PartialResult, 0> partialResults;
  /// The factor whose size is the operator's number of channel groups (OpSemantics::groups).
  std::optional<unsigned> channelGroups;
  /// Factors of grouped-query attention. The query-head dimension has the factors [kvHeads, queryHeadsPerKv],
  /// the key/value-head dimension [kvHeads]. `queryHeads` is an additional factor, their product, which no
  /// dimension lists: query heads can be sharded by it even where a shard boundary falls inside a group. A
  /// rank with any query head of a group needs the group's key/value head.
  struct GroupedHeads {
    unsigned queryHeads, kvHeads, queryHeadsPerKv;
    bool operator==(const GroupedHeads &) const = default;
  };
  std::optional<GroupedHeads> groupedHeads;
  bool operator==(const OpShardingRule &) const = default;

  unsigned addFactor(FactorKind kind, int64_t size) {
    factors.push_back({kind, size});
    return factors.size() - 1;
  }
  /// Makes a dimension of one new factor.
  Dim addDim(FactorKind kind, int64_t size) { return {addFactor(kind, size)}; }
};

/// A rule in einsum's notation: one letter per factor, operands separated by commas, as in `...k, nk, n ->
/// ...n`; `...` stands for any number of leading dimensions. A letter of operands only is Reduce, of results
/// only Broadcast, of both PassThrough, unless `kinds` says otherwise, as in `k:replicated v:lookup`
/// (replicated: NeedsReplication). Nothing if a shape has another number of dimensions than `text` says.
std::optional<OpShardingRule>
einsumRule(llvm::StringRef text, llvm::StringRef kinds,
           llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> operandShapes,
           llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> resultShapes);

/// Broadcasting as in elementwise operators: dimensions are aligned from the right, and a size 1 that meets a
/// larger one is a factor of its own. Scalars and absent operands have no dimensions.
std::optional<OpShardingRule>
elementwiseRule(llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> operandShapes,
                llvm::ArrayRef<int64_t> resultShape);

/// A view of row-major elements: the common refinement of both shapes; [4, 6] and [4, 2, 3] have the factors
/// 4, 2, 3. Dimensions without a common refinement (6 x 4 viewed as 4 x 6) are NeedsReplication. Dimensions
/// of size 1 have no factor, except within a run of dimensions that has no common refinement. Nothing for
/// empty tensors.
std::optional<OpShardingRule> viewRule(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// elementwiseRule of one operand, except that its dimensions `dims` (negative: from the end) are of the
/// given kind.
/// \param operands   number of operands of the call; all but the first have no dimensions.
/// \param keepsDims  dimensions that are reduced stay in the result with size 1.
std::optional<OpShardingRule> ruleWithKind(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims,
                                           FactorKind kind, size_t operands, bool keepsDims);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_OPSHARDINGRULE_H
