//===- DimFitter.h - Expressions for observed sizes -------------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_DIMFITTER_H
#define CLEAVE_IR_INFERENCE_DIMFITTER_H

#include "ir/SymbolicDim.h"
#include <vector>

namespace cleave {

/// Chooses sizes for named dimensions at which to try a program, and finds the expression behind what was observed there.
///
/// A polynomial of total degree ≤ 3 (2 from five names on) with a common divisor is determined by as many points as it
/// has monomials; further points must then agree exactly, or the size is unknown.
class DimFitter {
public:
  /// `traced`: names and their sizes in the examples, in a fixed order. The first sample is the traced point.
  explicit DimFitter(std::vector<std::pair<std::string, int64_t>> traced);

  /// Sizes of every name at each sample point.
  const std::vector<llvm::StringMap<int64_t>> &samples() const { return points; }

  /// The expression that has value `observed[i]` at sample i; unknown where there is none of the form above.
  const SymbolicDim &fit(const std::vector<int64_t> &observed);

private:
  SymbolicDim solve(const std::vector<int64_t> &observed) const;
  bool agrees(const SymbolicDim &dim, const std::vector<int64_t> &observed) const;

  std::vector<SymbolicDim::Monomial> monomials;
  std::vector<llvm::StringMap<int64_t>> points;
  /// Inverse of the monomials' values at the first points.
  std::vector<std::vector<long double>> inverse;
  std::map<std::vector<int64_t>, SymbolicDim> known;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_DIMFITTER_H
