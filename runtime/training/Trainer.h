//===- Trainer.h - Trains by a plan -----------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_TRAINING_TRAINER_H
#define CLEAVE_RUNTIME_TRAINING_TRAINER_H

#include "runtime/session/Session.h"
#include "runtime/training/LearningRate.h"

namespace cleave::runtime {

struct TrainerOptions {
  LearningRate rate;
  /// Go on after a step whose loss or gradients are not finite; such a step changes no weight. Otherwise it
  /// fails.
  bool skipsNonFinite = false;
  /// Each step begins libtorch's random numbers (dropout) anew, by this and the number of the step, so that a
  /// training that is resumed draws what it would have drawn.
  uint64_t seed = 0;
  SessionOptions session;
};

/// One step of a training.
struct TrainingStep {
  /// From 1 on.
  uint64_t number;
  double loss, gradientNorm, learningRate;
  /// Its loss or gradients were not finite, so that no weight has changed.
  bool isSkipped;
};

/// Trains the model of a plan that `cleave compile --train` has made, for one rank.
class Trainer {
public:
  /// Fails if the plan does not train. \param plan  its folder, untrusted.
  static llvm::Expected<std::unique_ptr<Trainer>> open(llvm::StringRef plan, TrainerOptions options);

  const Session &session() const { return *owned; }
  /// The inputs of a step: those of the plan but the learning rate and the number of the step.
  std::vector<const plan::Input *> inputs() const;
  /// Number of steps that were taken, those before `restore` included.
  uint64_t steps() const { return taken; }

  /// Takes a step on a batch, whose tensors are in the order of `inputs`. A step that fails before the update
  /// changes no weight; after one that fails in it, the trainer takes no other. Where the loss is not finite,
  /// the message names the first operator that made a NaN.
  llvm::Expected<TrainingStep> step(llvm::ArrayRef<at::Tensor> batch);

  /// The trained weights and the buffers that the model writes, by their names in the model; tied ones once.
  llvm::Expected<std::vector<NamedTensor>> weights();
  /// What `restore` needs to go on with the same bits: weights, states, and the number of steps.
  llvm::Expected<std::vector<NamedTensor>> checkpoint();
  /// Untrusted. Fails, and changes nothing, if it is not a checkpoint of this plan.
  llvm::Error restore(llvm::ArrayRef<NamedTensor> checkpoint);

private:
  Trainer(std::unique_ptr<Session> session, TrainerOptions options)
      : owned(std::move(session)), options(std::move(options)) {}
  llvm::Error findInputs();
  void seedStep(uint64_t number) const;
  llvm::Error describeNonFinite(llvm::ArrayRef<at::Tensor> leaves, const TrainingStep &step);

  std::unique_ptr<Session> owned;
  const TrainerOptions options;
  /// Indices of the signature's inputs and outputs.
  size_t rateInput = 0, stepInput = 0, lossOutput = 0, normOutput = 0;
  uint64_t taken = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINER_H
