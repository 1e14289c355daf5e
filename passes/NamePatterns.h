//===- NamePatterns.h - Globs of parameters, of module paths ----*- C++ -*-===//
#ifndef CLEAVE_PASSES_NAMEPATTERNS_H
#define CLEAVE_PASSES_NAMEPATTERNS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/GlobPattern.h"
#include <string>
#include <vector>

namespace cleave {

/// Globs, as options of passes have them: `h.*.attn`.
class NamePatterns {
public:
  /// Fails with a diagnostic if a text is no glob.
  static mlir::FailureOr<NamePatterns> parse(mlir::Operation *op, llvm::ArrayRef<std::string> texts);

  bool empty() const { return patterns.empty(); }
  /// True if one of them matches.
  bool match(llvm::StringRef name) const;
  /// Fails with a diagnostic, which begins with `what`, if one of them matches no parameter of the function.
  mlir::LogicalResult checkMatches(mlir::func::FuncOp function, llvm::StringRef what) const;

private:
  std::vector<std::string> texts;
  std::vector<llvm::GlobPattern> patterns;
};

} // namespace cleave

#endif // CLEAVE_PASSES_NAMEPATTERNS_H
