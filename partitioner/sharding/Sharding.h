//===- Sharding.h - Indices of a dimension on each rank ---------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDING_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDING_H

#include "partitioner/sharding/ShardingPropagation.h"
#include "llvm/ADT/BitVector.h"
#include <algorithm>

namespace cleave {

/// Limit of the ranks of a tensor-parallel group.
inline constexpr unsigned kMaxTensorParallelSize = 1024;
/// Attribute of a function: number of tensor-parallel ranks; absent for one.
inline constexpr llvm::StringLiteral kTensorParallelSizeAttr = "cleave.tp";
unsigned tensorParallelSizeOf(mlir::Operation *function);

/// By rank: its indices of a dimension or of a factor.
using IndexSets = std::vector<llvm::BitVector>;

IndexSets indexSetsOf(ShardingAttr sharding, int64_t size);
ShardingAttr shardingOf(mlir::MLIRContext *context, unsigned dim, const IndexSets &parts);

/// Distributes the labels of a sharding group over the ranks, evenly and in order: of 12 labels, each of 8
/// ranks gets one or two.
ShardingAttr shardingOf(mlir::MLIRContext *context, const LabelledDim &labelled, const ShardingGroup &found,
                        unsigned ranks);

/// Where the indices of the whole dimension are: triples of rank, offset in the rank's shard, and size.
llvm::SmallVector<int64_t> piecesOf(ShardingAttr sharding);

/// Mapping from a dimension's indices to a factor's: index p belongs to the `count` factor indices from
/// `firstOf(p)` on. `count` is larger than 1 only for the factor `queryHeads` of OpShardingRule::GroupedHeads
/// on a dimension of key/value heads: the query heads of a group share one head.
struct FactorMapping {
  int64_t stride, size, count;
  int64_t firstOf(int64_t position) const { return position / stride % size * count; }
  /// Calls `use(position, firstOf(position))` for all positions below `end`, in order.
  template <typename Use> void forEach(int64_t end, Use use) const {
    for (int64_t position = 0; position < end;)
      for (int64_t first = 0; first < size * count; first += count)
        for (const int64_t next = std::min(position + stride, end); position < next; ++position)
          use(position, first);
  }
};
/// Nothing if the dimension does not have the factor.
/// \param dim  the factors of the dimension, major to minor.
std::optional<FactorMapping> mappingOf(const OpShardingRule &rule, llvm::ArrayRef<unsigned> dim,
                                       unsigned factor);

/// The factor's indices on each rank, from the dimension's; nothing if some index of the factor lies partly
/// on one rank and partly on another, or if several indices of the factor share an index of the dimension.
/// \param dim  the factors of the dimension, major to minor.
std::optional<IndexSets> indexSetsOfFactor(const IndexSets &parts, const OpShardingRule &rule,
                                           llvm::ArrayRef<unsigned> dim, unsigned factor);
/// The dimension's indices on each rank, from the factor's; the dimension must have the factor.
IndexSets indexSetsOfDimension(const IndexSets &parts, const OpShardingRule &rule,
                               llvm::ArrayRef<unsigned> dim, unsigned factor);

/// How the ranks divide a call.
struct CallSharding {
  enum class Kind {
    Replicated,  ///< not divided: all operands are replicated
    Factor,      ///< each rank computes its indices of `factor`
    IndexMapped, ///< each rank concatenates, slices or reorders its own indices
  };
  Kind kind = Kind::Replicated;
  unsigned factor = 0;
  /// By rank: its indices of the factor.
  IndexSets parts;
  /// Results that are partial sums, so that each needs an all-reduce.
  llvm::SmallVector<unsigned> partialSums;
  /// Shardings of the operands that the call needs, and of the results that it gives; null for a whole
  /// tensor.
  llvm::SmallVector<ShardingAttr> operands, results;
};

/// \param operands  present shardings of the operands.
/// \param wanted    wanted shardings of the results; the call may give others.
CallSharding callShardingOf(const AnalyzedFunction &function, const AnalyzedCall &call,
                            llvm::ArrayRef<ShardingAttr> operands, llvm::ArrayRef<ShardingAttr> wanted);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDING_H
