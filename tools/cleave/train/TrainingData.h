//===- TrainingData.h - Batches of a training -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TRAIN_TRAININGDATA_H
#define CLEAVE_TOOLS_CLEAVE_TRAIN_TRAININGDATA_H

#include "runtime/training/Trainer.h"

namespace cleave {

/// The samples of a file, in batches of the sizes that the plan was made with.
class TrainingData {
public:
  /// Reads a safetensors file with a tensor for each input of a step. One that has more rows (in dimension 0)
  /// than the input is cut into batches, the last rows that fill none left out; one with the input's sizes is
  /// the same in each batch.
  static llvm::Expected<TrainingData> read(const runtime::Trainer &trainer, const std::string &file);

  /// The batch of step `step`, from 0 on. After the last batch comes the first.
  std::vector<at::Tensor> batch(uint64_t step) const;
  /// Number of batches in the file.
  uint64_t batches() const { return count; }
  /// Elements in a batch of the input that holds tokens; where none is known to, samples.
  int64_t unitsPerBatch() const { return units; }
  /// `tokens` or `samples`.
  llvm::StringRef unit() const { return unitName; }

private:
  struct Column {
    at::Tensor rows;
    /// Of one batch; 0: the tensor is whole in each.
    int64_t length;
  };
  std::vector<Column> columns;
  uint64_t count = 1;
  int64_t units = 0;
  llvm::StringRef unitName = "samples";
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TRAIN_TRAININGDATA_H
