//===- ExampleShapes.h - Shapes at the example inputs -----------*- C++ -*-===//
#ifndef CLEAVE_IR_EXAMPLESHAPES_H
#define CLEAVE_IR_EXAMPLESHAPES_H

#include "ir/Cleave.h"
#include "ir/SymbolicDim.h"
#include <limits>

namespace cleave {

/// Function attribute: by dynamic dimension, its size in the example inputs.
inline constexpr llvm::StringLiteral kSymbolsAttr = "cleave.symbols";
/// Function attribute: by dynamic dimension, a SizeLimitAttr if the model does not run at every size.
inline constexpr llvm::StringLiteral kSizeLimitsAttr = "cleave.size_limits";
/// Function attribute: the dimension that --microbatches made dynamic, not the user.
inline constexpr llvm::StringLiteral kAutoDynamicAttr = "cleave.auto_dynamic";

/// Sizes of a dynamic dimension at which a model runs, as far as they were tried; like torch.export.Dim's
/// limits.
struct SizeLimits {
  int64_t divisibleBy = 1;
  /// Multiples of `divisibleBy`, tried with the other dimensions at their example sizes.
  int64_t min = 1, max = std::numeric_limits<int64_t>::max();
  bool operator==(const SizeLimits &) const = default;
};

/// The limits in a function's attributes; a name without an entry may have any size.
llvm::StringMap<SizeLimits> limitsOf(mlir::Operation *function);
void setLimits(mlir::Operation *function, const llvm::StringMap<SizeLimits> &limits);

/// Concrete shapes of a function's values, with every dynamic dimension at its size in the example inputs.
/// Costs are computed from these.
class ExampleShapes {
public:
  explicit ExampleShapes(mlir::Operation *function);
  /// The same, with another size of one dynamic dimension.
  ExampleShapes resized(llvm::StringRef name, int64_t size) const;

  /// Nothing if the value is no tensor or its shape is unknown.
  std::optional<llvm::SmallVector<int64_t>> shapeOf(mlir::Value value) const;
  /// Number of elements; 0 if unknown.
  int64_t elementsOf(mlir::Value value) const;
  /// Bytes of the elements, without gaps between strides; 0 if unknown.
  int64_t bytesOf(mlir::Value value) const;
  const llvm::StringMap<int64_t> &sizes() const { return symbols; }

private:
  std::optional<llvm::SmallVector<int64_t>> evaluate(llvm::ArrayRef<std::string> expressions) const;
  llvm::StringMap<int64_t> symbols;
};

/// Bytes of one element; 0 for a type that no tensor has.
int64_t elementBytes(mlir::Type element);

} // namespace cleave

#endif // CLEAVE_IR_EXAMPLESHAPES_H
