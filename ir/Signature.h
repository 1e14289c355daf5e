//===- Signature.h - Names and nesting of inputs and outputs ----*- C++ -*-===//
#ifndef CLEAVE_IR_SIGNATURE_H
#define CLEAVE_IR_SIGNATURE_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

// Attributes of a signature's function: pytrees of inputs and outputs. A tree is one of
//   i            leaf i of the arguments or results
//   ["none"]
//   ["tuple", t…]   ["list", t…]   ["dict", "key", t, …]
//   ["fixed", value]   a scalar that is part of the program
inline constexpr llvm::StringLiteral kInputTreeAttr = "cleave.input_tree";
inline constexpr llvm::StringLiteral kOutputTreeAttr = "cleave.output_tree";
// How often the signature is requested, relative to the others: its costs count so much. 1 if absent.
inline constexpr llvm::StringLiteral kFrequencyAttr = "cleave.frequency";
// Of the function's arguments and results: the name for the caller. Of arguments alone: what the input means
// (`tokens`, …).
inline constexpr llvm::StringLiteral kNameAttr = "cleave.name";
inline constexpr llvm::StringLiteral kRoleAttr = "cleave.role";
// Of results alone: `sum` where the values of micro-batches are added; without it they are parts of the
// batch.
inline constexpr llvm::StringLiteral kMergeAttr = "cleave.merge";

/// Build trees. `children` are what follows the kind in the list above: trees, for a dict also keys, for
/// `fixed` the value.
mlir::Attribute leafTree(mlir::Builder &builder, unsigned leaf);
mlir::Attribute nodeTree(mlir::Builder &builder, llvm::StringRef kind,
                         llvm::ArrayRef<mlir::Attribute> children);

} // namespace cleave

#endif // CLEAVE_IR_SIGNATURE_H
