//===- DimensionRule.h - How dimensions of operands and results relate -*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_DIMENSIONRULE_H
#define CLEAVE_IR_SEMANTICS_DIMENSIONRULE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

/// What splitting a factor over ranks means.
enum class FactorKind {
  Pass,      ///< in operands and results alike: free
  Reduce,    ///< in operands only: the result is pending a sum
  Lookup,    ///< an index ranges over it: masked indices, result pending a sum
  Broadcast, ///< in results only: each rank makes its part
  Prefix,    ///< order matters one way: slices in order with carried state
  Halo,      ///< neighbours are needed
  Block,     ///< needed whole: gather first
};

/// Factors of one operator instance, and for each dimension of each operand and result the factors whose
/// product it is, major to minor; none for a size 1 that only a view sees. An operand that is no tensor has
/// no dimensions. Operands count as `flatOperands` (Shapes.h) gives them: the items of a list made in sight
/// stand for it. A result that is a list has the dimensions of each of its items.
///
/// Shardy's op sharding rule has the same form (mapped, reduction, needs-replication factors).
struct DimensionRule {
  struct Factor {
    FactorKind kind;
    int64_t size;
    bool operator==(const Factor &) const = default;
  };
  using Dim = llvm::SmallVector<unsigned, 1>;
  using Dims = llvm::SmallVector<Dim>;
  /// The values of operand `index` are positions in dimension `dim` of operand `operand`, which has a Block
  /// factor: an index that is the position itself passes it.
  struct Lookup {
    unsigned index, operand, dim;
    bool operator==(const Lookup &) const = default;
  };
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands, results;
  llvm::SmallVector<Lookup, 0> lookups;
  /// The factor that the operator's argument of that name counts.
  std::optional<unsigned> groups;
  /// `groups` and `each`, which stand behind one another, as one factor `all`, which no dimension names. A
  /// dimension of `groups` alone holds what all of a group share, as heads of queries do keys: part of a
  /// group needs it, too.
  struct Shared {
    unsigned all, groups, each;
    bool operator==(const Shared &) const = default;
  };
  std::optional<Shared> shared;
  bool operator==(const DimensionRule &) const = default;

  unsigned addFactor(FactorKind kind, int64_t size) {
    factors.push_back({kind, size});
    return factors.size() - 1;
  }
  /// A dimension that is one new factor.
  Dim addDim(FactorKind kind, int64_t size) { return {addFactor(kind, size)}; }
};

/// A rule in einsum's manner, a letter a factor, operands by commas: `...k, nk, n -> ...n`. `...` stands for
/// any number of leading dimensions. A letter of operands only is Reduce, of results only Broadcast, of both
/// Pass, unless `kinds` says otherwise: `k:block v:lookup`. Shapes are the operands' then the results';
/// nothing where ranks do not fit.
std::optional<DimensionRule>
einsumRule(llvm::StringRef text, llvm::StringRef kinds,
           llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> operandShapes,
           llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> resultShapes);

/// Broadcasting as elementwise operators do it: dimensions aligned from the right, size 1 met by a larger one
/// is a factor of its own. Scalars and absent operands have no dimensions.
std::optional<DimensionRule>
elementwiseRule(llvm::ArrayRef<std::optional<llvm::SmallVector<int64_t>>> operandShapes,
                llvm::ArrayRef<int64_t> resultShape);

/// A view of row-major elements: the common refinement of both shapes' dimensions, as [4, 6] and [4, 2, 3]
/// have the factors 4, 2, 3. Dimensions that have none (6 x 4 seen as 4 x 6) are Block. Nothing for empty
/// tensors.
std::optional<DimensionRule> viewRule(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// As elementwiseRule of one operand, with `dims` of the operand (negative count from the end) of the given
/// kind.
std::optional<DimensionRule> alongRule(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims,
                                       FactorKind kind, size_t operands, bool keepsDims);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_DIMENSIONRULE_H
