//===- SymbolicDim.h - Sizes as polynomials of symbols ----------*- C++ -*-===//
#ifndef CLEAVE_IR_SYMBOLICDIM_H
#define CLEAVE_IR_SYMBOLICDIM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A size: floor((Σ coefficient·Π names) / divisor), or unknown. A value type; equal expressions compare
/// equal.
///
/// As text, terms of higher degree come first, then terms are sorted by name (`batch*seq + 3*seq + 1`). A
/// divisor is written `(seq + 1) floordiv 2`, unknown is `?`.
class SymbolicDim {
public:
  /// Sorted names of one term; a power repeats its name. Empty for the constant term.
  using Monomial = std::vector<std::string>;

  SymbolicDim() = default;
  static SymbolicDim constant(int64_t value);
  static SymbolicDim symbol(llvm::StringRef name);
  static SymbolicDim unknown();
  /// Drops terms with coefficient 0 and cancels common factors with the divisor, which must be > 0.
  static SymbolicDim make(std::map<Monomial, int64_t> terms, int64_t divisor = 1);

  /// Nothing if `text` does not follow the grammar above.
  static std::optional<SymbolicDim> parse(llvm::StringRef text);
  std::string str() const;

  bool isUnknown() const { return divisor == 0; }
  std::optional<int64_t> asConstant() const;
  /// Nothing if the size is unknown, a name has no size, or the result overflows.
  std::optional<int64_t> evaluate(const llvm::StringMap<int64_t> &sizes) const;

  const std::map<Monomial, int64_t> &getTerms() const { return terms; }
  int64_t getDivisor() const { return divisor; }
  bool operator==(const SymbolicDim &) const = default;

private:
  std::map<Monomial, int64_t> terms;
  int64_t divisor = 1;
};

/// True for a valid name of a dimension: a letter or `_`, then letters, digits and `_`.
bool isDimName(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_IR_SYMBOLICDIM_H
