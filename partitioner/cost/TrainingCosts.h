//===- TrainingCosts.h - What a training step takes -------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
#define CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H

#include "ir/ExampleShapes.h"
#include "ir/semantics/GradientFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/machine/DeviceGroup.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

/// What the backward pass makes anew instead of keeping it.
enum class Recompute {
  None,
  /// What lies between two products neither of which takes a weight: attention's scores (Korthikanti et al.
  /// 2022).
  Selective,
  /// All of each item of a list of modules (`transformer.h.3`): what enters it is kept (Chen et al. 2016).
  Full,
};

struct TrainingOptions {
  Recompute recompute = Recompute::None;
  /// Values that all tensor ranks would have whole are held, and worked on, in one part a rank (Korthikanti
  /// et al. 2022): a sum over ranks becomes a reduce-scatter there and an all-gather where the whole is read.
  /// The all-gather of what the backward pass reads is behind a product, as it is there.
  bool sequenceParallel = false;
  bool operator==(const TrainingOptions &) const = default;
};

/// Gradients that are summed over pipelines side by side at a time.
struct GradientBucket {
  int64_t bytes = 0;
  /// What the stage's passes still take when the last of them is there.
  double inputGradientLeft = 0, weightGradientLeft = 0;
};

/// What a stage takes for one micro-batch, and holds.
struct TrainingStageCost {
  double forward = 0, inputGradient = 0, weightGradient = 0;
  /// Once a step: the optimizer's.
  double update = 0;
  /// From a micro-batch's forward to its backward pass. A storage counts once, weights do not.
  int64_t savedBytes = 0;
  /// What the backward pass of one micro-batch has made anew at a time: a device has it once.
  int64_t recomputedBytes = 0;
  /// Weights, gradients and the optimizer's in all; and each, of the weights that are trained.
  int64_t stateBytes = 0, weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  /// Beside that, what pipelines side by side have before it is in parts, or together again.
  int64_t bufferBytes = 0;
  /// `weightBytes` by item of a list of modules, in the order of the forward pass.
  std::vector<int64_t> itemBytes = {};
  /// `gradientBytes`, in the order of the backward pass. As PyTorch's DDP has them (Li et al. 2020): full
  /// with 25 MB.
  std::vector<GradientBucket> buckets = {};
};

/// What Adam in mixed precision holds and moves, as Megatron-LM has it.
struct OptimizerBytes {
  /// Beside the weights themselves: of weights narrower than float32 a gradient and a copy in float32 and two
  /// moments, of others a gradient and two moments.
  static constexpr int64_t kGradient = 4, kNarrowState = kGradient + 4 + 8, kWideState = kGradient + 8;
  /// Read or written a parameter: gradients are unscaled (8), measured (4), clipped (8) and cleared (4); Adam
  /// reads gradient, weight and moments and writes all but the gradient (28), and narrow weights are made of
  /// the copy (6).
  static constexpr int64_t kNarrowMoves = 8 + 4 + 8 + 4 + 28 + 6, kWideMoves = 4 + 8 + 4 + 28;
};

/// The costs of training a function: one program of a tensor rank, collectives included, or a whole model.
class TrainingCosts {
public:
  /// \param microbatch  the sizes of one micro-batch.
  /// \param group       where it runs; must outlive this.
  TrainingCosts(mlir::func::FuncOp function, const ExampleShapes &microbatch, const DeviceGroup &group,
                const TrainingOptions &options);

  /// Forward and backward pass of one operation, for the cut.
  double seconds(mlir::Operation *op) const;
  /// \param ops  the operations that one stage does, in program order.
  TrainingStageCost stage(llvm::ArrayRef<mlir::Operation *> ops) const;
  /// What the rank holds of a value of one micro-batch, and sends of it to another stage: where all tensor
  /// ranks have it whole, each sends a part, which the receivers gather (Narayanan et al. 2021).
  int64_t sentBytes(mlir::Value value) const;

private:
  /// Operations whose results the backward pass makes anew together.
  using Segment = unsigned;
  struct Seconds {
    double forward = 0, inputGradient = 0, weightGradient = 0;
  };
  /// What stages keep while they are gone through.
  struct Holdings {
    llvm::MapVector<mlir::Value, int64_t> kept;
    llvm::MapVector<std::pair<Segment, mlir::Value>, int64_t> recomputed;
    int64_t keptExtra = 0;
    llvm::MapVector<Segment, int64_t> recomputedExtra;
  };

  void findSplit();
  void findSumsOfGradients();
  void findBlocks();
  void findCores();

  double shareOf(mlir::Operation *op) const;
  bool isWhole(mlir::Value value) const {
    return ranks > 1 && flow.isOfRequest(value) && !split.contains(value);
  }
  int64_t heldBytes(mlir::Value storage) const;
  std::optional<Segment> segmentOf(mlir::Operation *op) const;
  double allReduceSeconds(int64_t bytes) const;
  double forwardSeconds(mlir::Operation *op) const;
  double exchangeSeconds(mlir::Operation *op) const;
  double sumSeconds(mlir::Operation *op) const;
  Seconds secondsOf(mlir::Operation *op) const;
  void hold(mlir::Operation *op, Holdings &holdings) const;
  void holdEntering(mlir::Operation *op, Holdings &holdings) const;
  void addWeight(mlir::Value value, TrainingStageCost &cost, double &moved) const;
  std::vector<int64_t> addWeights(llvm::ArrayRef<mlir::Operation *> ops, TrainingStageCost &cost) const;
  bool leadsToCore(mlir::Value value, Segment core, llvm::DenseSet<mlir::Operation *> &seen);

  mlir::func::FuncOp function;
  ExampleShapes shapes;
  const DeviceGroup &group;
  TrainingOptions options;
  unsigned ranks;
  GradientFlow flow;
  /// Values that differ between the ranks of a tensor group.
  llvm::DenseSet<mlir::Value> split;
  /// Storages whose gradients the ranks sum, by the operation that reads them first.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 1>> owed;
  /// Operations that a backward pass does again, and those of them whose results it keeps not before.
  llvm::DenseMap<mlir::Operation *, Segment> again, dropped;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_TRAININGCOSTS_H
