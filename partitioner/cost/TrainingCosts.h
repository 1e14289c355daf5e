//===- TrainingCosts.h - Costs of a training step ---------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
#define CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H

#include "ir/ExampleShapes.h"
#include "ir/autograd/BackwardPassCache.h"
#include "ir/semantics/GradientFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/machine/DeviceGroup.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

/// Activation recomputation: which activations the backward pass recomputes instead of saving them.
enum class Recompute {
  None,
  /// Activations between two contractions neither of which takes a weight, such as attention scores
  /// (Korthikanti et al. 2022).
  Selective,
  /// All activations inside each item of a module list (`transformer.h.3`); only the item's inputs are saved
  /// (Chen et al. 2016).
  Full,
};

struct TrainingOptions {
  Recompute recompute = Recompute::None;
  /// Sequence parallelism (Korthikanti et al. 2022): values that every tensor-parallel rank would hold whole
  /// are sharded over the ranks instead, and so is the work on them. An all-reduce becomes a reduce-scatter,
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
  /// Bytes held beside the weight, its gradient among them. A weight narrower than float32 has a float32
  /// gradient, a float32 copy and two moments; a float32 weight has a gradient and two moments.
  static constexpr int64_t kGradient = 4, kNarrowState = kGradient + 4 + 8, kWideState = kGradient + 8;
  /// Bytes read or written by the optimizer step. Gradients are unscaled (8), their norm is computed (4),
  /// they are clipped (8) and cleared (4). Adam reads gradient, weight and moments and writes all but the
  /// gradient (28); narrow weights are cast from the float32 copy (6).
  static constexpr int64_t kNarrowMoves = 8 + 4 + 8 + 4 + 28 + 6, kWideMoves = 4 + 8 + 4 + 28;
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
  /// Bytes of a value that one rank sends to another stage, for one micro-batch. Where all tensor-parallel
  /// ranks hold the value whole, each sends a part, and the receivers all-gather it (Narayanan et al. 2021).
  int64_t sentBytes(mlir::Value value) const;

private:
  /// Operations whose results the backward pass recomputes together.
  using Segment = unsigned;
  struct Seconds {
    double forward = 0, inputGradient = 0, weightGradient = 0;
  };
  /// Bytes held by a stage, collected operation by operation.
  struct Holdings {
    llvm::MapVector<mlir::Value, int64_t> kept;
    llvm::MapVector<std::pair<Segment, mlir::Value>, int64_t> recomputed;
    /// Bytes that backward passes keep besides operands and results: of operations whose results are saved,
    /// and by segment of the others.
    int64_t keptExtra = 0;
    /// Of the operator that needs most.
    int64_t workspaceBytes = 0;
    llvm::MapVector<Segment, int64_t> recomputedExtra;
  };

  void findSplit();
  void findGradientAllReduces();
  /// Full recomputation: finds the items of module lists.
  void findBlocks();
  /// Selective recomputation: finds attention cores.
  void findCores();

  double shareOf(mlir::Operation *op) const;
  bool isWhole(mlir::Value value) const {
    return ranks > 1 && flow.dependsOnInputs(value) && !split.contains(value);
  }
  int64_t heldBytes(mlir::Value storage) const;
  std::optional<Segment> segmentOf(mlir::Operation *op) const;
  double allReduceSeconds(int64_t bytes) const;
  double forwardSeconds(mlir::Operation *op) const;
  double exchangeSeconds(mlir::Operation *op) const;
  double gradientAddSeconds(mlir::Operation *op) const;
  Seconds secondsOf(mlir::Operation *op) const;
  void hold(mlir::Operation *op, Holdings &holdings) const;
  void holdEntering(mlir::Operation *op, Holdings &holdings) const;
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
  llvm::DenseSet<mlir::Value> split;
  /// By the first operation that reads them: storages whose gradients the ranks all-reduce.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 1>> gradientAllReduces;
  /// `recomputed`: operations that the backward pass runs again. `notSaved`: those of them whose results the
  /// forward pass does not save (the second contraction of an attention core runs again although its result
  /// is saved).
  llvm::DenseMap<mlir::Operation *, Segment> recomputed, notSaved;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
