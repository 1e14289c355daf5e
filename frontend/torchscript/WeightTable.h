//===- WeightTable.h - The weights of an imported model ---------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H

#include "llvm/ADT/StringMap.h"
#include <ATen/core/Tensor.h>
#include <string>
#include <vector>

namespace cleave {

/// Every tensor a model owns, by the module path that holds it first. Bytes stay in the mapped model file
/// until somebody reads them.
class WeightTable {
public:
  struct Entry {
    std::string name;
    /// Further paths of the same tensor (tied weights), in the order of the model's modules.
    std::vector<std::string> aliases;
    /// parameter, buffer or constant, as cleave.param has it.
    std::string role;
    at::Tensor tensor;
  };

  /// Adds `tensor` under `name`, or `name` as an alias of the entry that is the same memory seen the same
  /// way. Returns the entry's name.
  std::string add(std::string name, const std::string &role, const at::Tensor &tensor);

  /// The same for a constant of the program, which has no path: it is named `constants.<n>`.
  std::string addConstant(const at::Tensor &tensor);

  /// Another weight whose memory is that of weight `name`, or a part of it; empty where there is none.
  std::string sharingMemory(llvm::StringRef name) const;

  /// Null when there is none of that name (aliases are not names).
  const Entry *find(llvm::StringRef name) const;
  const std::vector<Entry> &entries() const { return table; }

private:
  std::vector<Entry> table;
  size_t constants = 0;
  llvm::StringMap<size_t> byName;
  /// Address, dtype, sizes and strides of a tensor → its entry.
  llvm::StringMap<size_t> byMemory;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_WEIGHTTABLE_H
