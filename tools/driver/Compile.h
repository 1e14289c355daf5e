//===- Compile.h - From a model file to a plan ------------------*- C++ -*-===//
//
// What `cleave compile` calls, and a program that compiles on its own links (target cleave_driver).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_COMPILE_H
#define CLEAVE_TOOLS_DRIVER_COMPILE_H

#include "codegen/plan/Plan.h"
#include "tools/driver/base/CompileOptions.h"
#include <memory>

namespace cleave {

struct CompileReport {
  /// Checksums of its files stand in it once they are written; where the mesh was searched for, what else
  /// there was.
  std::unique_ptr<plan::Plan> plan;
  uint32_t stages = 0, microbatches = 1, tensorRanks = 1, dataRanks = 1;
  /// Of one tensor rank, all stages together.
  uint64_t weightBytes = 0;
  /// Wall-clock seconds: reading and importing, passes, writing shards, verifying.
  double readSeconds = 0, passSeconds = 0, writeSeconds = 0, verifySeconds = 0;
  /// What CompileOptions::verify found: the largest error; and of the element that is nearest to its limit,
  /// the error and the limit.
  double maxAbsError = 0, error = 0, allowedError = 0;
  /// Sizes at which nothing could be compared, and why.
  std::vector<std::string> skipped;
  /// Slowest stage over the mean, predicted.
  double balance = 1;
  /// Sentences for people (plan.notes).
  std::vector<std::string> notes;
};

/// Compiles. `output` is a complete plan afterwards, or what it was before.
llvm::Expected<CompileReport> compile(const CompileOptions &options);

/// Plans of one model for one limit of memory after the other. The model is read, typed, sharded and priced once, and what a
/// limit leaves as it was is not made again; the plans are those that compile() makes with that limit.
class Planner {
public:
  /// Nothing is written, whatever the options say.
  explicit Planner(CompileOptions options);
  ~Planner();
  /// \param deviceMemory  as in CompileOptions.
  llvm::Expected<CompileReport> plan(std::optional<int64_t> deviceMemory);

private:
  CompileOptions options;
  /// The second does not split the batch; made where the first cannot.
  std::unique_ptr<class Compilation> first, whole;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_COMPILE_H
