//===- TrainingCosts.h - Costs of a training step ---------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
#define CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H

#include "ir/ExampleShapes.h"
#include "ir/autograd/BackwardPassCache.h"
#include "ir/autograd/Recompute.h"
#include "ir/semantics/GradientFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/machine/DeviceGroup.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

struct TrainingOptions {
  /// Activations that the backward pass recomputes: Selective, Full (each item of a module list), or none.
  /// Costs of MinimumCut are not known.
  std::optional<RecomputeKind> recompute;
  /// Sequence parallelism (Korthikanti et al. 2022): values that would be replicated on the tensor-parallel
  /// ranks are sharded over them instead, and so is the work on them. An all-reduce becomes a reduce-scatter,
  /// plus an all-gather where the whole value is read. The all-gather for the backward pass overlaps with a
  /// matrix product, as in that paper.
  bool sequenceParallel = false;
  bool operator==(const TrainingOptions &) const = default;
};

/// A bucket of gradients that data-parallel ranks reduce together.
struct GradientBucket {
  int64_t bytes = 0;
  /// Seconds that the stage's passes still take once the bucket's last gradient is computed.
  double inputPassSecondsLeft = 0, weightPassSecondsLeft = 0;
};

/// Costs of a stage: seconds for one micro-batch, and bytes.
struct TrainingStageCost {
  double forward = 0, inputGradient = 0, weightGradient = 0;
  /// Seconds of the optimizer step, once per training step.
  double update = 0;
  /// Bytes saved from a micro-batch's forward pass to its backward pass. Each storage counts once; weights do
  /// not count.
  int64_t savedBytes = 0;
  /// Peak bytes that the backward pass of one micro-batch recomputes, and of workspace where operators run
  /// under autograd; a device holds them once.
  int64_t recomputedBytes = 0;
  /// `stateBytes`: all weights, and gradients and optimizer state of the trained ones. The others count
  /// trained weights only, so stateBytes minus their sum is the bytes of weights that are not trained.
  int64_t stateBytes = 0, weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  /// Bytes beside `stateBytes` that data-parallel ranks hold before values are scattered or after they are
  /// gathered.
  int64_t bufferBytes = 0;
  /// `weightBytes` by item of the module list, in the order of the forward pass.
  std::vector<int64_t> layerBytes = {};
  /// `gradientBytes` by bucket, in the order of the backward pass. A bucket is full at 25 MB, as in PyTorch's
  /// DDP (Li et al. 2020).
  std::vector<GradientBucket> buckets = {};
};

/// Bytes that Adam in mixed precision holds and moves per parameter, as in Megatron-LM.
struct OptimizerBytes {
  /// Bytes held beside the weight, its gradient among them. A half-precision weight has a float32
  /// gradient, a float32 copy and two moments; a float32 weight has a gradient and two moments.
  static constexpr int64_t kGradient = 4, kHalfState = kGradient + 4 + 8, kFloat32State = kGradient + 8;
  /// Bytes read or written by the optimizer step. Gradients are unscaled (8), their norm is computed (4),
  /// they are clipped (8) and cleared (4). Adam reads gradient, weight and moments and writes all but the
  /// gradient (28); half-precision weights are cast from the float32 copy (6).
  static constexpr int64_t kHalfMoves = 8 + 4 + 8 + 4 + 28 + 6, kFloat32Moves = 4 + 8 + 4 + 28;
};

/// Costs of training a function: the program of one tensor-parallel rank with its collectives, or a whole
/// model.
class TrainingCosts {
public:
  /// \param microbatch  example shapes of one micro-batch.
  /// \param group, backwards  devices that run the function, and backward passes of the calls of functions
  ///                          like it; both must outlive the object.
  TrainingCosts(mlir::func::FuncOp function, const ExampleShapes &microbatch, const DeviceGroup &group,
                const TrainingOptions &options, BackwardPassCache &backwards);

  /// Seconds of the forward and backward pass of one operation, as the stage cutter counts them.
  double seconds(mlir::Operation *op) const;
  /// \param ops  the operations of one stage, in program order.
  TrainingStageCost stage(llvm::ArrayRef<mlir::Operation *> ops) const;
  /// Bytes of a value that one rank sends to another stage, for one micro-batch. Where the value is
  /// replicated on the tensor-parallel ranks, each sends a part, and the receivers all-gather it (Narayanan
  /// et al. 2021).
  int64_t sentBytes(mlir::Value value) const;

private:
  /// Operations whose results the backward pass recomputes together.
  using Segment = unsigned;
  struct Seconds {
    double forward = 0, inputGradient = 0, weightGradient = 0;
  };
  /// Bytes of activations that a stage saves for its backward pass or recomputes in it, collected operation
  /// by operation.
  struct ActivationBytes {
    llvm::MapVector<mlir::Value, int64_t> saved;
    llvm::MapVector<std::pair<Segment, mlir::Value>, int64_t> recomputed;
    /// Bytes that backward passes save besides operands and results: of operations whose results are saved,
    /// and by segment of the others.
    int64_t extraSaved = 0;
    /// Of the operator that needs most.
    int64_t workspaceBytes = 0;
    llvm::MapVector<Segment, int64_t> extraRecomputed;
  };

  void findPerRankValues();
  void findGradientAllReduces();
  /// Full recomputation: finds the items of module lists.
  void findModuleListSegments();
  /// Selective recomputation: finds attention cores.
  void findAttentionSegments();

  double sequenceParallelFraction(mlir::Operation *op) const;
  bool isReplicated(mlir::Value value) const {
    return ranks > 1 && flow.dependsOnInputs(value) && !perRankValues.contains(value);
  }
  int64_t activationBytes(mlir::Value storage) const;
  std::optional<Segment> segmentOf(mlir::Operation *op) const;
  double allReduceSeconds(int64_t bytes) const;
  double forwardSeconds(mlir::Operation *op) const;
  double gradientCollectiveSeconds(mlir::Operation *op) const;
  double gradientAddSeconds(mlir::Operation *op) const;
  Seconds secondsOf(mlir::Operation *op) const;
  void addSavedValues(mlir::Operation *op, ActivationBytes &activations) const;
  void addSegmentInputs(mlir::Operation *op, ActivationBytes &activations) const;
  void addWeight(mlir::Value value, TrainingStageCost &cost, double &moved) const;
  std::vector<int64_t> addWeights(llvm::ArrayRef<mlir::Operation *> ops, TrainingStageCost &cost) const;

  mlir::func::FuncOp function;
  ExampleShapes shapes;
  const DeviceGroup &group;
  BackwardPassCache &backwards;
  TrainingOptions options;
  unsigned ranks;
  GradientFlow flow;
  /// Values that differ between the ranks of a tensor-parallel group.
  llvm::DenseSet<mlir::Value> perRankValues;
  /// By the first operation that reads them: storages whose gradients the ranks all-reduce.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 1>> gradientAllReduces;
  /// Operations that the backward pass runs again; and those of them whose results the forward pass does not
  /// save: all but the second contraction of an attention core.
  llvm::DenseMap<mlir::Operation *, Segment> recomputed, notSaved;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
