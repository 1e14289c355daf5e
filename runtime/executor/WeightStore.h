//===- WeightStore.h - The weights of one rank ------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_WEIGHTSTORE_H
#define CLEAVE_RUNTIME_EXECUTOR_WEIGHTSTORE_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Safetensors.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <memory>

namespace cleave::runtime {

/// Weights that the programs of one rank use. CPU weights are views of the mapped shard file and keep the
/// mapping alive; those that are trainable are copies, since updates write them.
class WeightStore {
public:
  /// \param file  the rank's shard file, already checked against the plan.
  static llvm::Expected<WeightStore> load(const plan::Plan &plan, std::shared_ptr<plan::SafetensorsFile> file,
                                          uint32_t rank, c10::Device device);

  /// Weight `index` of the plan. A program of this rank must use it.
  const at::Tensor &at(uint32_t index) const { return tensors.find(index)->second; }
  bool contains(uint32_t index) const { return tensors.contains(index); }
  int64_t bytes() const { return total; }

private:
  llvm::Error add(const plan::Plan &plan, std::shared_ptr<plan::SafetensorsFile> file, uint32_t rank,
                  uint32_t weight, c10::Device device);

  llvm::DenseMap<uint32_t, at::Tensor> tensors;
  int64_t total = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_WEIGHTSTORE_H
