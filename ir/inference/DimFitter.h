//===- DimFitter.h - Expressions for observed sizes -------------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_DIMFITTER_H
#define CLEAVE_IR_INFERENCE_DIMFITTER_H

#include "ir/ExampleShapes.h"
#include <limits>
#include <numeric>
#include <vector>

namespace cleave {

/// Chooses sizes for named dimensions at which to try a program, and finds the expression behind what was
/// observed there.
///
/// A polynomial of total degree ≤ 3 (2 from five names on) with a common divisor is determined by as many
/// points as it has monomials; further points must then agree exactly, or the size is unknown. A name that
/// has few sizes to try has lower powers. A size that is rounded down, as a strided window's, is
/// floor((a·name + c) / d), where one a/d alone agrees with all points; it takes more of them to tell c, and
/// a row of sizes one after the other that all agree, since differences of such sizes (n/2 - n/3) are like
/// one where few are tried.
class DimFitter {
public:
  /// `traced`: names and their sizes in the examples, in a fixed order. The first sample is the traced point.
  /// `limits`: of names that do not run at every size.
  explicit DimFitter(std::vector<std::pair<std::string, int64_t>> traced,
                     const llvm::StringMap<SizeLimits> &limits = {});

  /// The least and the greatest size at which a dimension is tried, but for edges.
  static std::pair<int64_t, int64_t> triedRange(int64_t traced, const SizeLimits &limits);

  /// Sizes of every name at each sample point.
  const std::vector<llvm::StringMap<int64_t>> &samples() const { return points; }
  /// How many samples, from the first on, the program must run at. The others are *edges* (1, and far above
  /// the traced sizes), where it may fail or not say what a size is.
  size_t mustRun() const { return fitted; }
  /// The edge where every dimension has size 1, or the least multiple.
  size_t smallest() const { return fitted; }

  /// What an edge observed that did not come as far.
  static constexpr int64_t kNotObserved = std::numeric_limits<int64_t>::min();

  /// The expression that has value `observed[i]` at sample i, wherever something was observed; unknown where
  /// there is none of the form above. Edges may be missing at the end.
  const SymbolicDim &fit(const std::vector<int64_t> &observed);

  /// Whether sample `i` is an edge, and not one that was added.
  bool isEdge(size_t i) const { return i >= fitted && i < fitted + kEdges; }

  /// For an observation without an expression: points that would tell those apart that are rounded down and
  /// agree with it, or confirm the one that does. None where there is none such, or the points have been
  /// tried.
  std::vector<llvm::StringMap<int64_t>> tellingPoints(const std::vector<int64_t> &observed) const;
  /// Adds those of the points that are new.
  void addSamples(const std::vector<llvm::StringMap<int64_t>> &more);

private:
  static constexpr size_t kEdges = 5;
  /// floor((a·name + c) / d) for any c from `low` to `high`.
  struct Rounded {
    std::string name;
    int64_t a, d, low, high;
  };
  /// At most one a name.
  std::vector<Rounded> findRounded(const std::vector<int64_t> &observed) const;
  std::optional<Rounded> findRounded(const std::string &name, const std::vector<int64_t> &observed) const;
  /// A row of sizes at which the candidate is put to the test.
  std::vector<llvm::StringMap<int64_t>> rowFor(const Rounded &candidate) const;
  bool isObserved(const llvm::StringMap<int64_t> &at, const std::vector<int64_t> &observed) const;
  SymbolicDim solve(const std::vector<int64_t> &observed) const;
  bool agrees(const SymbolicDim &dim, const std::vector<int64_t> &observed) const;

  llvm::StringMap<SizeLimits> limits;
  std::vector<SymbolicDim::Monomial> monomials;
  std::vector<llvm::StringMap<int64_t>> points;
  size_t fitted = 1;
  /// Inverse of the monomials' values at the first points.
  std::vector<std::vector<long double>> inverse;
  std::map<std::vector<int64_t>, SymbolicDim> known;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_DIMFITTER_H
