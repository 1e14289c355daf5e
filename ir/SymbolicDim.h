//===- SymbolicDim.h - Sizes as polynomials of named dimensions -*- C++ -*-===//
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

/// floor((Σ coefficient·Π names) / divisor), or unknown. A value; equal expressions compare equal.
///
/// Text: larger degrees first, then by name (`batch*seq + 3*seq + 1`); a divisor as
/// `(seq + 1) floordiv 2`, `?` for unknown.
class SymbolicDim {
public:
  /// Names of one term, sorted; a power repeats its name. Empty: the constant term.
  using Monomial = std::vector<std::string>;

  SymbolicDim() = default;
  static SymbolicDim constant(int64_t value);
  static SymbolicDim symbol(llvm::StringRef name);
  static SymbolicDim unknown();
  /// Terms with coefficient 0 are dropped and common factors with the divisor cancelled. `divisor` > 0.
  static SymbolicDim make(std::map<Monomial, int64_t> terms, int64_t divisor = 1);

  /// Nothing when `text` is not an expression in the grammar above.
  static std::optional<SymbolicDim> parse(llvm::StringRef text);
  std::string str() const;

  bool isUnknown() const { return divisor == 0; }
  std::optional<int64_t> asConstant() const;
  /// Nothing when unknown, when a name has no size, or on overflow.
  std::optional<int64_t> evaluate(const llvm::StringMap<int64_t> &sizes) const;

  const std::map<Monomial, int64_t> &getTerms() const { return terms; }
  int64_t getDivisor() const { return divisor; }
  bool operator==(const SymbolicDim &) const = default;

private:
  std::map<Monomial, int64_t> terms;
  int64_t divisor = 1;
};

/// Whether `name` can name a dimension: a letter or `_`, then letters, digits and `_`.
bool isDimName(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_IR_SYMBOLICDIM_H
