//===- Sharding.h - Which positions each rank has ---------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDING_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDING_H

#include "partitioner/sharding/ShardingPropagation.h"
#include "llvm/ADT/BitVector.h"
#include <algorithm>

namespace cleave {

/// Of a tensor group.
inline constexpr unsigned kMostTensorRanks = 1024;
/// Ranks of the tensor group, on the function; left out for one.
inline constexpr llvm::StringLiteral kTensorRanksAttr = "cleave.tp";
unsigned tensorRanksOf(mlir::Operation *function);

/// The positions of a dimension, or of a factor, that each rank has.
using IndexSets = std::vector<llvm::BitVector>;

IndexSets indexSetsOf(ShardingAttr sharding, int64_t size);
ShardingAttr shardingOf(mlir::MLIRContext *context, unsigned dim, const IndexSets &parts);

/// Deals the labels of a class out evenly, in order: of 12 over 8 ranks, one or two each.
ShardingAttr shardingOf(mlir::MLIRContext *context, const ShardAssignment &assignment,
                        const ShardingGroup &found, unsigned ranks);

/// Where each position of the whole is: triples of rank, offset in its part, and size.
llvm::SmallVector<int64_t> piecesOf(ShardingAttr sharding);

/// Where a factor's positions are in a dimension: position p of it is of `count` of the factor's, from
/// `firstOf(p)` on. Several are those that share it.
struct FactorSteps {
  int64_t stride, size, count;
  int64_t firstOf(int64_t position) const { return position / stride % size * count; }
  /// Calls `use(position, firstOf(position))` for the positions below `end`, in order.
  template <typename Use> void forEach(int64_t end, Use use) const {
    for (int64_t position = 0; position < end;)
      for (int64_t first = 0; first < size * count; first += count)
        for (const int64_t next = std::min(position + stride, end); position < next; ++position)
          use(position, first);
  }
};
/// Nothing where the dimension does not have the factor.
/// \param dim  the factors of the dimension, major to minor.
std::optional<FactorSteps> stepsOf(const DimensionRule &rule, llvm::ArrayRef<unsigned> dim, unsigned factor);

/// The positions of factor `factor` that a dimension's parts have; nothing where they are no whole positions
/// of it, or several share them.
/// \param dim  the factors of the dimension, major to minor.
std::optional<IndexSets> indexSetsOfFactor(const IndexSets &parts, const DimensionRule &rule,
                                           llvm::ArrayRef<unsigned> dim, unsigned factor);
/// The positions of the dimension, which has the factor, that have these of it.
IndexSets indexSetsOfDimension(const IndexSets &parts, const DimensionRule &rule,
                               llvm::ArrayRef<unsigned> dim, unsigned factor);

/// How a call is done in parts.
struct CallSplit {
  enum class Kind {
    Whole,  ///< all operands whole
    Factor, ///< each rank does its positions of `factor`
    Along,  ///< each rank joins, cuts or reorders the positions that it has
  };
  Kind kind = Kind::Whole;
  unsigned factor = 0;
  /// Which positions of the factor each rank does.
  IndexSets parts;
  /// Results are sums over the ranks.
  bool isSum = false;
  /// What the ranks must have of the operands and what they then have of the results, as the call counts
  /// them; null: the whole.
  llvm::SmallVector<ShardingAttr> operands, results;
};

/// \param operands  what the ranks have of the operands.
/// \param wanted    what they are to have of the results; the answer may leave other parts.
CallSplit splitOf(const ShardingPropagation &function, const SplittableCall &call,
                  llvm::ArrayRef<ShardingAttr> operands, llvm::ArrayRef<ShardingAttr> wanted);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDING_H
