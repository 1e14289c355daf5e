//===- MergedSignatures.h - The functions of a module as one -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_MERGEDSIGNATURES_H
#define CLEAVE_PARTITIONER_GRAPH_MERGEDSIGNATURES_H

#include "ir/ExampleShapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>

namespace cleave {

/// The functions of a module as one, on which analyses and searches decide for all of them together: their
/// bodies one after the other, with each weight once. Names of dynamic dimensions
/// and of states get the index of their function, but for those of the first. A module of one function is not
/// copied: the merged function is that function.
///
/// Decisions are discardable attributes. `copyBack` copies them to the operations that the merged function's
/// operations were made of.
class MergedSignatures {
public:
  /// Fails with a diagnostic if two functions give one weight different types or attributes, or one state
  /// different types. Nothing if the module has no function with a body. The functions must outlive the
  /// result.
  static mlir::FailureOr<std::optional<MergedSignatures>> of(mlir::ModuleOp module);

  mlir::func::FuncOp get() const { return merged; }
  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }
  /// Copies the discardable attributes of operations, not those of the function itself.
  void copyBack();

private:
  mlir::LogicalResult append(unsigned index);
  mlir::LogicalResult appendBody(unsigned index, mlir::IRMapping &map, mlir::OpBuilder &b);
  mlir::FailureOr<mlir::Operation *> sharedWeight(mlir::Operation *op);

  std::vector<mlir::func::FuncOp> functions;
  mlir::OwningOpRef<mlir::func::FuncOp> owned;
  mlir::func::FuncOp merged;
  /// Operations of the merged function, each with one that it was made of.
  std::vector<std::pair<mlir::Operation *, mlir::Operation *>> origins;
  /// By name.
  llvm::StringMap<mlir::Operation *> weights, states;
};

/// In a merged function: index of the function that the operation comes from; 0 for weights and everywhere
/// else.
unsigned signatureIndexOf(mlir::Operation *op);
/// Number of functions that a merged function was made of; 1 for any other function.
unsigned signatureCountOf(mlir::func::FuncOp function);
/// What the function with index `signature` returns, among the results of the merged function.
mlir::OperandRange resultsOf(mlir::func::FuncOp function, unsigned signature);
/// How often the operation's signature is requested; 1 inside regions, whose parent is counted.
double frequencyOf(mlir::Operation *op);
/// The name of a state in its own function; in the merged function, the index of the function is part of it.
llvm::StringRef stateName(ReadStateOp state);

/// `shapes` of a function for the largest of `count` parts of the batch: the dimension `batch` of every
/// function that was merged, whatever its size.
ExampleShapes partOfBatch(mlir::func::FuncOp function, const ExampleShapes &shapes, llvm::StringRef batch,
                          uint64_t count);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_MERGEDSIGNATURES_H
