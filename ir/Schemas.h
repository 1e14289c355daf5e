//===- Schemas.h - PyTorch's operator registry, as the IR names it -*- C++ -*-===//
#ifndef CLEAVE_IR_SCHEMAS_H
#define CLEAVE_IR_SCHEMAS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// What the registry says of one operator. Taken from libtorch once and kept for the life of the process.
struct OperatorSchema {
  struct Argument {
    std::string name;
    /// In TorchScript's words: `Tensor?`, `int[]`.
    std::string type;
    /// The argument is written (`Tensor(a!)`).
    bool isWritten;
    /// A result may be a view of it, or it itself (`Tensor(a)`).
    bool isAliased;
  };
  /// As the IR names it, `aten.add.Tensor`, and as PyTorch does, `aten::add.Tensor`.
  std::string irName, torchName;
  std::vector<Argument> arguments;
  std::vector<std::string> results;
  /// Takes any number of operands (`prim::Print`, `aten::format`).
  bool isVariadic;
  /// Draws random numbers (tag nondeterministic_seeded).
  bool isRandom;
  /// The result's shape depends on values (tags dynamic_output_shape, data_dependent_output).
  bool isDataDependent;

  bool writesAnyArgument() const;
};

/// Null when the registry has no operator of this IR name.
const OperatorSchema *findSchema(llvm::StringRef irName);

/// All operators of all namespaces, ordered by IR name.
llvm::ArrayRef<const OperatorSchema *> allSchemas();

/// Whether there is an operator of this IR name, without overload, by now: `aten.add`. Unlike the others it
/// may be asked before libraries are loaded.
bool hasOperator(llvm::StringRef nameSpace, llvm::StringRef name);

/// The names of all that there are by now, without overload, in order.
std::vector<std::string> operatorNames();

/// Loads a library that registers operators, as torch.ops.load_library does; before the first use of the
/// registry. Returns the loader's message when it cannot be loaded.
std::optional<std::string> loadOperatorLibrary(const std::string &path);

/// `aten::add.Tensor` → `aten.add.Tensor`.
std::string irNameOf(llvm::StringRef torchName);

} // namespace cleave

#endif // CLEAVE_IR_SCHEMAS_H
