//===- Trainer.h - Runs the steps of a training plan ------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_TRAINING_TRAINER_H
#define CLEAVE_RUNTIME_TRAINING_TRAINER_H

#include "runtime/session/Session.h"
#include "runtime/training/LearningRate.h"

namespace cleave::runtime {

struct TrainerOptions {
  LearningRateSchedule learningRate;
  /// Go on after a step whose loss or gradients are not finite; such a step changes no weight. Otherwise it
  /// fails.
  bool skipNonFinite = false;
  /// This and the number of a step decide its random numbers: they are the key of those that are drawn by key
  /// and index (dropout), and reseed libtorch's default generators, which belong to the process, for the
  /// others. So a resumed run draws the same.
  uint64_t seed = 0;
  SessionOptions session;
};

/// The loss is that of the batch before the update, the norm that before clipping.
struct StepResult {
  /// From 1 on.
  uint64_t number;
  double loss, gradientNorm, learningRate;
  /// Its loss or gradients were not finite, so that no weight has changed.
  bool isSkipped;
};

/// Trains the model of a plan that `cleave compile --train` has made. Several processes
/// (SessionOptions::launch) make the same calls of `step`, `weights`, `checkpoint` and `restore`, in the same
/// order and with the same arguments.
class Trainer {
public:
  /// Fails if the plan does not train, or the session has a coordinator.
  /// \param plan  its folder, untrusted.
  static llvm::Expected<std::unique_ptr<Trainer>> open(llvm::StringRef plan, TrainerOptions options);

  Session &session() { return *ownedSession; }
  const Session &session() const { return *ownedSession; }
  /// As those of the session.
  llvm::Error close() { return ownedSession->close(); }
  std::string fail(const std::string &message) { return ownedSession->fail(message); }
  /// Inputs that the caller gives: those of the plan except the step inputs (learning rate, step number,
  /// random key, sample indices). They live as long as this object.
  std::vector<const plan::Input *> inputs() const;
  /// Number of steps that were taken, those before `restore` included.
  uint64_t completedSteps() const { return completed; }

  /// Runs a training step on one tensor for each of `inputs`, of the dtype and sizes that the plan gives
  /// them; from any device, and only read. Not thread-safe. All processes get the result.
  ///
  /// A step with a loss or gradient that is not finite leaves weights and optimizer state unchanged, but may
  /// have changed buffers (running statistics). With `skipNonFinite` it counts: step number and schedule go
  /// on. Without, it fails, and the message names the first operator that made a NaN, if one did. After a
  /// step that fails during the update, every later call fails.
  llvm::Expected<StepResult> step(llvm::ArrayRef<at::Tensor> batch);

  /// The trained weights and the buffers that the model writes, by their names in the model; tied ones once.
  /// In process 0; none in others.
  llvm::Expected<std::vector<NamedTensor>> weights();
  /// Copies in main memory of all that `restore` needs except options and data: `weight/NAME`, `state/NAME`
  /// and `steps` (int64), the number of completed steps. In process 0; others have only `steps`.
  llvm::Expected<std::vector<NamedTensor>> checkpoint();
  /// Untrusted; copied. Fails, and changes nothing, if it is not a checkpoint of this plan. Only one of no
  /// steps may lack optimizer states.
  llvm::Error restore(llvm::ArrayRef<NamedTensor> checkpoint);

private:
  Trainer(std::unique_ptr<Session> session, TrainerOptions options)
      : ownedSession(std::move(session)), options(std::move(options)) {}
  llvm::Error bindSignature();
  llvm::Error restoreEntries(llvm::ArrayRef<NamedTensor> checkpoint);
  llvm::Expected<StepResult> runStep(llvm::ArrayRef<at::Tensor> batch);
  /// The inputs of the signature: those of the batch, and what the step gives.
  std::vector<at::Tensor> leavesOf(llvm::ArrayRef<at::Tensor> batch, const StepResult &step) const;
  void seedStep(uint64_t number) const;
  /// Broadcasts loss and gradient norm to all processes.
  /// \param results  outputs of the step; read in the process that has them.
  llvm::Error shareResult(llvm::ArrayRef<at::Tensor> results, StepResult &step);
  llvm::Error describeNonFinite(llvm::ArrayRef<at::Tensor> leaves, const StepResult &step);

  std::unique_ptr<Session> ownedSession;
  const TrainerOptions options;
  /// Indices of the signature's outputs.
  size_t lossOutput = 0, normOutput = 0;
  uint64_t completed = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINER_H
