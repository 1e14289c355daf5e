//===- Compile.h - Compiles a model file to a plan --------------*- C++ -*-===//
//
// Called by `cleave compile`, and by programs that link cleave_driver.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_COMPILE_H
#define CLEAVE_TOOLS_DRIVER_COMPILE_H

#include "codegen/plan/Plan.h"
#include "tools/driver/base/CompileOptions.h"
#include <memory>

namespace cleave {

struct CompileReport {
  /// The plan. It has the checksums of its files once these are written, and the candidates if the mesh was
  /// searched for.
  std::unique_ptr<plan::Plan> plan;
  uint32_t stages = 0, microbatches = 1;
  /// Numbers of tensor-parallel and data-parallel ranks.
  uint32_t tp = 1, dp = 1;
  /// Weights of one tensor-parallel rank, over all stages.
  uint64_t weightBytes = 0;
  /// Wall-clock seconds of reading and importing, passes, writing shards, verifying.
  double readSeconds = 0, passSeconds = 0, writeSeconds = 0, verifySeconds = 0;
  /// Result of CompileOptions::verify: the largest error, and error and limit of the element that is nearest
  /// to its limit.
  double maxAbsError = 0, error = 0, allowedError = 0;
  /// Numbers of compared tensors, over all sizes and calls.
  size_t comparedOutputs = 0, comparedGradients = 0, comparedWeights = 0;
  /// Sets of inputs to which the plan answers as the module that was traced, and error and limit of the
  /// element that is nearest to its limit.
  std::vector<std::string> witnesses;
  double witnessError = 0, witnessAllowed = 0;
  /// Sizes at which nothing could be compared, and why.
  std::vector<std::string> skipped;
  /// Predicted time of the slowest stage over the mean.
  double balance = 1;
  /// Messages for the user (plan.notes).
  std::vector<std::string> notes;
};

/// Compiles. On success `output` is a complete plan; on failure it is unchanged.
llvm::Expected<CompileReport> compile(const CompileOptions &options);

/// Plans one model for several memory limits, one after the other. The model is read, typed, sharded and
/// costed once, and results are reused for all limits that would not change them. The plans are those that
/// compile() makes with each limit.
class Planner {
public:
  /// Writes nothing, whatever the options say.
  explicit Planner(CompileOptions options);
  ~Planner();
  /// \param deviceMemory  as in CompileOptions.
  llvm::Expected<CompileReport> plan(std::optional<int64_t> deviceMemory);

private:
  CompileOptions options;
  /// `whole` does not split the batch; it is made if `first` fails.
  std::unique_ptr<class Compilation> first, whole;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_COMPILE_H
