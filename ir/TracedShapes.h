//===- TracedShapes.h - Sizes at the example inputs -------------*- C++ -*-===//
#ifndef CLEAVE_IR_TRACEDSHAPES_H
#define CLEAVE_IR_TRACEDSHAPES_H

#include "ir/Cleave.h"
#include "ir/SymbolicDim.h"

namespace cleave {

/// Name of the function attribute that gives each named dimension its size in the example inputs.
inline constexpr llvm::StringLiteral kSymbolsAttr = "cleave.symbols";
/// … and of that for named dimensions that must be multiples of a number above 1.
inline constexpr llvm::StringLiteral kMultiplesAttr = "cleave.multiples";
/// … and of the named dimension that --microbatches opened and no user named.
inline constexpr llvm::StringLiteral kOpenedAttr = "cleave.opened";

/// What the attribute says; a name that it leaves out may have any size.
llvm::StringMap<int64_t> multiplesOf(mlir::Operation *function);

/// Concrete shapes of a function's values where every named dimension has the size of the example inputs.
/// Costs are counted in these.
class TracedShapes {
public:
  explicit TracedShapes(mlir::Operation *function);
  /// The same with another size for one named dimension.
  TracedShapes resized(llvm::StringRef name, int64_t size) const;

  /// Nothing when the value is no tensor or its shape is not known.
  std::optional<llvm::SmallVector<int64_t>> shapeOf(mlir::Value value) const;
  /// Elements; 0 when not known.
  int64_t elementsOf(mlir::Value value) const;
  /// Bytes of the elements (not of gaps between strides); 0 when not known.
  int64_t bytesOf(mlir::Value value) const;
  const llvm::StringMap<int64_t> &sizes() const { return symbols; }

private:
  std::optional<llvm::SmallVector<int64_t>> evaluate(llvm::ArrayRef<std::string> expressions) const;
  llvm::StringMap<int64_t> symbols;
};

/// Bytes of one element; 0 for types that no tensor has.
int64_t elementBytes(mlir::Type element);

} // namespace cleave

#endif // CLEAVE_IR_TRACEDSHAPES_H
