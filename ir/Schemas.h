//===- Schemas.h - PyTorch's operator registry, as the IR names it -*- C++ -*-===//
#ifndef CLEAVE_IR_SCHEMAS_H
#define CLEAVE_IR_SCHEMAS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// The schema of one operator, read from libtorch once and kept for the life of the process.
struct OperatorSchema {
  struct Argument {
    std::string name;
    /// As TorchScript writes it: `Tensor?`, `int[]`.
    std::string type;
    /// The operator writes the argument (`Tensor(a!)`).
    bool isWritten;
    /// A result may be a view of the argument, or the argument itself (`Tensor(a)`).
    bool isAliased;
  };
  /// `irName`: `aten.add.Tensor`; `torchName`: `aten::add.Tensor`.
  std::string irName, torchName;
  std::vector<Argument> arguments;
  std::vector<std::string> results;
  /// The operator takes any number of operands (`prim::Print`, `aten::format`).
  bool isVariadic;
  /// The operator draws random numbers (tag nondeterministic_seeded).
  bool isRandom;
  /// Shapes of results depend on values (tags dynamic_output_shape, data_dependent_output).
  bool isDataDependent;

  bool writesAnyArgument() const;
};

/// Null if the registry has no operator of this IR name.
const OperatorSchema *findSchema(llvm::StringRef irName);

/// All operators of all namespaces, ordered by IR name.
llvm::ArrayRef<const OperatorSchema *> allSchemas();

/// True if an operator of this IR name without overload (`aten.add`) is registered by now. May be called
/// before libraries are loaded.
bool hasOperator(llvm::StringRef nameSpace, llvm::StringRef name);

/// Sorted names, without overload, of all operators registered by now.
std::vector<std::string> operatorNames();

/// Loads a library that registers operators, like torch.ops.load_library. Must be called before the first use
/// of the registry. Returns the loader's message if it fails.
std::optional<std::string> loadOperatorLibrary(const std::string &path);

/// `aten::add.Tensor` → `aten.add.Tensor`.
std::string irNameOf(llvm::StringRef torchName);

} // namespace cleave

#endif // CLEAVE_IR_SCHEMAS_H
