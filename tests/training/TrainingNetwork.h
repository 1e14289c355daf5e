//===- TrainingNetwork.h - A network with its backward pass -----*- C++ -*-===//
#ifndef CLEAVE_TESTS_TRAINING_TRAININGNETWORK_H
#define CLEAVE_TESTS_TRAINING_TRAININGNETWORK_H

#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// A training step written by hand as IR: a chain of linear layers with ReLU between them, the sum of squared
/// errors, the gradients of all weights, and SGD with momentum. Layer i is stage i. Over tensor-parallel
/// ranks even layers are split by columns and odd ones by rows, as in Megatron-LM.
///
/// Inputs: `x`, `t` : f32[batch, 8]. Outputs: `loss`, and `grad.i` for each layer's weight.
struct TrainingNetwork {
  /// `layers` is even, and at least `pipelineRanks`.
  uint32_t layers = 2, pipelineRanks = 2, dataParallelSize = 1, tensorParallelSize = 1, microbatches = 4;
  /// gpipe, 1f1b, interleaved or zb-h1.
  std::string order = "1f1b";
  /// The last layer uses the weight of the first one.
  bool isTied = false;
  /// `forward` or `update`: the last stage fails there if the third input, `row` : i64[1], is not below 8.
  std::string failsIn = {};
  /// The last output is the weight of the last layer, as it is before the update.
  bool givesWeight = false;

  static constexpr int64_t kWidth = 8;
  static constexpr double kLearningRate = 0.01, kMomentum = 0.9;

  /// The function, before it is split into stages.
  std::string text() const;
  /// Random weights, `w0`, `b0`, `w1`, …; the same each time.
  std::map<std::string, at::Tensor> weights() const;
  /// Random inputs `x` and `t`; the same each time for one `seed`.
  static std::vector<at::Tensor> inputs(int64_t batch, uint64_t seed = 0);
  /// Writes a plan into a folder, which it creates.
  llvm::Error write(const std::string &folder) const;
};

} // namespace cleave

#endif // CLEAVE_TESTS_TRAINING_TRAININGNETWORK_H
