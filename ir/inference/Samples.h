//===- Samples.h - Runs of a function at several sizes ----------*- C++ -*-===//
//
// For ir/: passes call inferShapes.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_SAMPLES_H
#define CLEAVE_IR_INFERENCE_SAMPLES_H

#include "ir/inference/DimFitter.h"
#include "ir/inference/MetaInterpreter.h"
#include "ir/inference/ShapeInference.h"
#include "ir/inference/SizeSearch.h"
#include <c10/core/InferenceMode.h>
#include <memory>
#include <set>

namespace cleave {

/// For runs on meta tensors: inference mode, and one thread, since calls are too small to share.
class MetaRunGuard {
public:
  MetaRunGuard();
  ~MetaRunGuard();

private:
  c10::InferenceMode inference;
  int threads;
};

/// Runs of a function at the sizes that a DimFitter chose.
struct Samples {
  Samples(mlir::func::FuncOp function, const SizeTable &sizes, const llvm::StringMap<SizeLimits> &limits,
          bool onlyTraced);

  /// Runs the function at further samples: those that distinguish the candidate expressions of `unresolved`
  /// observations, and those of addBelowEdges. False if there are none.
  bool refine(mlir::func::FuncOp function, const std::set<std::vector<int64_t>> &unresolved);

  /// True of samples at which the function, or an operator of it, need not run: edges, and those at which a
  /// call fails.
  bool mayFail(size_t i) const { return fitter.isEdge(i) || fails[i]; }

  DimFitter fitter;
  /// By sample of the fitter.
  std::vector<MetaInterpreter> runs;
  /// By run: whether a call fails that does not fail at the example sizes.
  std::vector<bool> fails;

private:
  void run(mlir::func::FuncOp function, const llvm::StringMap<int64_t> &sample);
  /// Adds samples for each edge at which the function fails: of each dimension alone, the last size before
  /// the edge at which the function runs, and one halfway to it.
  void addBelowEdges(mlir::func::FuncOp function);

  const SizeTable sizes;
  bool hasTriedEdges = false;
};

/// Runs the function at the example sizes and, unless `onlyTraced`, at others at which it must run; see
/// inferShapes for how these are found, and for its diagnostics. Sets `limits`.
mlir::FailureOr<std::unique_ptr<Samples>> sample(mlir::func::FuncOp function,
                                                 llvm::StringMap<SizeLimits> &limits, bool onlyTraced);

/// Infers types and sizes of all values from the runs; runs the function at further samples where several
/// expressions agree with what was observed.
void generalize(mlir::func::FuncOp function, Samples &samples, InferredValues &result);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SAMPLES_H
