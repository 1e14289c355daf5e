//===- WeightStore.cpp ----------------------------------------------------===//
#include "runtime/executor/WeightStore.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/TensorFile.h"
#include "runtime/base/Values.h"
#include "runtime/device/PlanRanks.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::runtime {

/// The rank's piece of `weight`, or an error where the file disagrees with the plan.
static llvm::Expected<const plan::TensorEntry *> findPiece(const plan::SafetensorsFile &file,
                                                           const plan::Weight &weight, uint32_t rank) {
  auto shard = llvm::find_if(weight.shards, [&](const auto &shard) { return shard->rank == rank; });
  const plan::TensorEntry *entry = file.find((*shard)->key);
  if (!entry)
    return llvm::createStringError("weight " + weight.name + ": its file has no tensor " + (*shard)->key);
  if (entry->dtype != weight.dtype || entry->shape != (*shard)->shape)
    return llvm::createStringError("weight " + weight.name +
                                   ": its file and the plan give it different types");
  return entry;
}

llvm::Error WeightStore::add(const plan::Plan &plan, std::shared_ptr<plan::SafetensorsFile> file,
                             uint32_t rank, uint32_t weight, c10::Device device) {
  if (tensors.contains(weight))
    return llvm::Error::success();
  auto entry = findPiece(*file, *plan.weights[weight], rank);
  if (!entry)
    return entry.takeError();
  auto tensor = mappedTensor(std::move(file), **entry);
  if (!tensor)
    return tensor.takeError();
  total += (*entry)->bytes;
  return catching([&]() -> llvm::Error {
    const bool isCopied = plan.weights[weight]->trainable && device.is_cpu();
    at::Tensor &placed =
        tensors.try_emplace(weight, isCopied ? tensor->clone() : tensor->to(device)).first->second;
    if (plan.weights[weight]->wrapped_number)
      placed.unsafeGetTensorImpl()->set_wrapped_number(true);
    return llvm::Error::success();
  });
}

llvm::Expected<WeightStore> WeightStore::load(const plan::Plan &plan,
                                              std::shared_ptr<plan::SafetensorsFile> file, uint32_t rank,
                                              c10::Device device) {
  WeightStore store;
  for (const plan::Program *program : programsOf(plan, rank))
    for (const auto &use : program->weights)
      if (llvm::Error error = store.add(plan, file, rank, use->weight, device))
        return error;
  return store;
}

} // namespace cleave::runtime
