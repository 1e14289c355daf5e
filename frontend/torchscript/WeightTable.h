//===- WeightTable.h - The weights of an imported model ---------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// All tensors of a model, each under the first module path that holds it. Bytes stay in the mapped model
/// file until they are read.
class WeightTable {
public:
  struct Entry {
    std::string name;
    /// Other paths of the same tensor (tied weights), in the order of the model's modules.
    std::vector<std::string> aliases;
    /// parameter, buffer or constant, as in cleave.param.
    std::string role;
    at::Tensor tensor;
  };

  /// Adds `tensor` under `name`, or adds `name` as an alias of the entry with the same memory, dtype, sizes
  /// and strides. Returns the entry's name.
  std::string add(std::string name, const std::string &role, const at::Tensor &tensor);

  /// Adds a constant of the program, which has no path; its name is `constants.<n>`.
  std::string addConstant(const at::Tensor &tensor);

  /// Name of another weight that shares memory with weight `name`; empty if there is none.
  std::string sharingMemory(llvm::StringRef name) const;

  /// Fails if the weights would take far more bytes in a plan than in the model file. This happens if weights
  /// are views that repeat elements (expand), or are made when the model is opened.
  /// \param fileBytes  size of the model file.
  llvm::Error checkSize(uint64_t fileBytes) const;

  /// Null if there is no such name; aliases are not names.
  const Entry *find(llvm::StringRef name) const;
  const std::vector<Entry> &entries() const { return table; }

private:
  std::vector<Entry> table;
  size_t constants = 0;
  llvm::StringMap<size_t> byName;
  /// Entry by the tensor's address, dtype, sizes and strides.
  llvm::StringMap<size_t> byMemory;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H
