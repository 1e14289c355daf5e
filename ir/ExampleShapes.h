//===- ExampleShapes.h - Sizes at the example inputs -------------*- C++ -*-===//
#ifndef CLEAVE_IR_EXAMPLESHAPES_H
#define CLEAVE_IR_EXAMPLESHAPES_H

#include "ir/Cleave.h"
#include "ir/SymbolicDim.h"
#include <limits>

namespace cleave {

/// Name of the function attribute that gives each named dimension its size in the example inputs.
inline constexpr llvm::StringLiteral kSymbolsAttr = "cleave.symbols";
/// Name of the function attribute that gives a SizeLimitAttr to each named dimension that does not run at every
/// size.
inline constexpr llvm::StringLiteral kSizeLimitsAttr = "cleave.size_limits";
/// Name of the function attribute that names the dimension which --microbatches made dynamic, and no user.
inline constexpr llvm::StringLiteral kAutoDynamicAttr = "cleave.auto_dynamic";

/// The sizes of a named dimension at which a model runs, as far as they were tried.
struct SizeLimits {
  int64_t divisibleBy = 1;
  /// Multiples of `divisibleBy`, with the other dimensions as traced.
  int64_t min = 1, max = std::numeric_limits<int64_t>::max();
  bool operator==(const SizeLimits &) const = default;
};

/// What the attributes say; a name that they leave out may have any size.
llvm::StringMap<SizeLimits> limitsOf(mlir::Operation *function);
void setLimits(mlir::Operation *function, const llvm::StringMap<SizeLimits> &limits);

/// Concrete shapes of a function's values where every named dimension has the size of the example inputs.
/// Costs are counted in these.
class ExampleShapes {
public:
  explicit ExampleShapes(mlir::Operation *function);
  /// The same with another size for one named dimension.
  ExampleShapes resized(llvm::StringRef name, int64_t size) const;

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

#endif // CLEAVE_IR_EXAMPLESHAPES_H
