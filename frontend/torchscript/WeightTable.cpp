//===- WeightTable.cpp - The weights of an imported model -----------------===//
#include "frontend/torchscript/WeightTable.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// False for empty and sparse tensors, which have no memory to share.
static bool hasMemory(const at::Tensor &tensor) { return tensor.has_storage() && tensor.numel() > 0; }

static std::string memoryKey(const at::Tensor &tensor) {
  std::string key;
  llvm::raw_string_ostream out(key);
  // Two bits mark tensors that are read as conjugated or negated.
  out << tensor.const_data_ptr() << ':' << int(tensor.scalar_type()) << tensor.is_conj() << tensor.is_neg();
  for (int64_t size : tensor.sizes())
    out << ',' << size;
  for (int64_t stride : tensor.strides())
    out << ';' << stride;
  return key;
}

std::string WeightTable::add(std::string name, const std::string &role, const at::Tensor &tensor) {
  if (auto known = byName.find(name); known != byName.end())
    return table[known->second].name;
  if (hasMemory(tensor)) {
    auto [entry, isNew] = byMemory.try_emplace(memoryKey(tensor), table.size());
    if (!isNew) {
      table[entry->second].aliases.push_back(name);
      byName[name] = entry->second;
      return table[entry->second].name;
    }
  }
  byName[name] = table.size();
  table.push_back({name, {}, role, tensor});
  return name;
}

std::string WeightTable::addConstant(const at::Tensor &tensor) {
  auto known = hasMemory(tensor) ? byMemory.find(memoryKey(tensor)) : byMemory.end();
  if (known != byMemory.end())
    return table[known->second].name;
  return add("constants." + std::to_string(constants++), "constant", tensor);
}

std::string WeightTable::sharingMemory(llvm::StringRef name) const {
  const at::Tensor &tensor = find(name)->tensor;
  for (const Entry &entry : table)
    if (entry.name != name && hasMemory(tensor) && hasMemory(entry.tensor) &&
        entry.tensor.is_alias_of(tensor))
      return entry.name;
  return "";
}

/// Transposed and tied weights take some bytes twice, and packed ones are unpacked; small tensors may repeat
/// their elements.
static constexpr double kMostRepeated = 4, kMostAdded = 64 << 20;

llvm::Error WeightTable::checkSize(uint64_t fileBytes) const {
  double written = 0, most = 0;
  llvm::StringRef largest;
  for (const Entry &entry : table) {
    if (!entry.tensor.has_storage())
      continue;
    const double bytes = double(entry.tensor.numel()) * double(entry.tensor.itemsize());
    written += bytes;
    if (bytes > most) {
      most = bytes;
      largest = entry.name;
    }
  }
  if (written <= kMostRepeated * double(fileBytes) + kMostAdded)
    return llvm::Error::success();
  return llvm::createStringError(
      "it has %.0f MB, and its weights would be %.0f MB in a plan, '%s' the largest: "
      "weights repeat elements, share them, or are made when the model is opened; "
      "store them once, and expand or make them in forward",
      double(fileBytes) / 1e6, written / 1e6, largest.str().c_str());
}

const WeightTable::Entry *WeightTable::find(llvm::StringRef name) const {
  auto found = byName.find(name);
  return found != byName.end() && table[found->second].name == name ? &table[found->second] : nullptr;
}

} // namespace cleave
