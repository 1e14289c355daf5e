//===- DimFitter.h - Expressions for observed sizes -------------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_DIMFITTER_H
#define CLEAVE_IR_INFERENCE_DIMFITTER_H

#include "ir/ExampleShapes.h"
#include <limits>
#include <numeric>
#include <vector>

namespace cleave {

/// Chooses sample sizes of dynamic dimensions at which a program is tried, and fits expressions to the sizes
/// observed there.
///
/// An expression is a polynomial divided by an integer. The polynomial has total degree ≤ 3 (≤ 2 with five or
/// more symbols), and the power of a symbol that runs at few sizes only is limited further. As many samples
/// as it has monomials determine it. All other samples must agree with it exactly; otherwise the size is
/// unknown.
///
/// A size that is rounded down, such as a strided window's, is floor((a·symbol + c) / d) if exactly one a/d
/// agrees with all samples. Consecutive sizes are among the samples, since a difference of rounded sizes
/// (n/2 - n/3) looks like one rounded size where few are tried.
class DimFitter {
public:
  /// \param exampleSizes  symbols and their example sizes, in a fixed order; the first sample has these
  /// sizes.
  /// \param limits  limits of symbols that do not run at every size.
  explicit DimFitter(std::vector<std::pair<std::string, int64_t>> exampleSizes,
                     const llvm::StringMap<SizeLimits> &limits = {});

  /// Smallest and largest size of a dimension among the samples, edges excluded.
  static std::pair<int64_t, int64_t> triedRange(int64_t exampleSize, const SizeLimits &limits);

  /// By sample: sizes of all symbols.
  const std::vector<llvm::StringMap<int64_t>> &samples() const { return points; }
  /// Number of samples, from the first one on, at which the program must run. The others are *edges* (size 1,
  /// and sizes far above the example ones), where the program may fail or leave a size unobserved.
  size_t requiredSamples() const { return fitted; }
  /// The edge where each dimension has its smallest size: 1, or its `divisible_by`.
  size_t smallestEdge() const { return fitted; }

  /// Observation of an edge at which the program did not get to the value.
  static constexpr int64_t kNotObserved = std::numeric_limits<int64_t>::min();

  /// The expression with value `observed[i]` at each observed sample i; unknown if no expression of the form
  /// above fits. Edges may be missing at the end of `observed`.
  const SymbolicDim &fit(const std::vector<int64_t> &observed);

  /// True if sample `i` is an edge; false for samples that were added later.
  bool isEdge(size_t i) const { return i >= fitted && i < fitted + kEdges; }

  /// Extra samples for an observation without an expression: they distinguish the rounded-down expressions
  /// that agree with it, or confirm the only one. Empty if no such expression agrees, or the samples were
  /// tried.
  std::vector<llvm::StringMap<int64_t>> distinguishingSamples(const std::vector<int64_t> &observed) const;
  /// The first sample, with another size of one dimension.
  llvm::StringMap<int64_t> resized(llvm::StringRef name, int64_t size) const;
  /// Sizes of a dimension are multiples of this.
  int64_t stepOf(llvm::StringRef name) const { return limits.lookup(name).divisibleBy; }
  /// Adds the samples that are new.
  void addSamples(const std::vector<llvm::StringMap<int64_t>> &more);

private:
  static constexpr size_t kEdges = 5;
  /// floor((a·symbol + c) / d) for any c from `low` to `high`.
  struct Rounded {
    std::string name;
    int64_t a, d, low, high;
  };
  /// The rounded-down expressions that agree, at most one per name.
  std::vector<Rounded> findRounded(const std::vector<int64_t> &observed) const;
  std::optional<Rounded> findRounded(const std::string &name, const std::vector<int64_t> &observed) const;
  /// A row of consecutive sizes that tests the candidate.
  std::vector<llvm::StringMap<int64_t>> rowFor(const Rounded &candidate) const;
  bool isObserved(const llvm::StringMap<int64_t> &at, const std::vector<int64_t> &observed) const;
  SymbolicDim solve(const std::vector<int64_t> &observed) const;
  bool agrees(const SymbolicDim &dim, const std::vector<int64_t> &observed) const;

  llvm::StringMap<SizeLimits> limits;
  std::vector<SymbolicDim::Monomial> monomials;
  std::vector<llvm::StringMap<int64_t>> points;
  size_t fitted = 1;
  /// Inverse of the matrix of the monomials' values at the first samples.
  std::vector<std::vector<long double>> inverse;
  std::map<std::vector<int64_t>, SymbolicDim> known;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_DIMFITTER_H
