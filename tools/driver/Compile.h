//===- Compile.h - From a model file to a plan ------------------*- C++ -*-===//
//
// What `cleave compile` calls, and a program that compiles on its own links (target cleave_driver).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_COMPILE_H
#define CLEAVE_TOOLS_DRIVER_COMPILE_H

#include "codegen/plan/Plan.h"
#include "tools/driver/Progress.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

class SearchStop;

/// How a training step is forecast.
struct TrainingChoice {
  /// `none`, `selective`, `full`; `auto`: each is tried where the mesh is searched for, else none.
  std::string recompute = "auto";
  bool sequenceParallel = false;
  /// Stages of a rank where they are interleaved; nothing: two, where the schedule is to be.
  std::optional<uint32_t> interleave = std::nullopt;
  /// What pipelines side by side hold in parts (ZeRO): 0 to 3; nothing: each is tried where the mesh is searched for, else 0.
  std::optional<uint32_t> zero = std::nullopt;
};

struct CompileOptions {
  /// A TorchScript file, and the directory to write.
  std::string model, output;
  /// False: only the report's plan is made, and `output` and `verify` mean nothing.
  bool writesPlan = true;
  /// A safetensors file whose names, dtypes and shapes are the example inputs'; may be empty.
  std::string inputsFile;
  /// `ids:i64[4,128]` (a tensor) or `sr=16000` (a scalar that is fixed).
  std::vector<std::string> inputs;
  /// `ids=batch,seq`: names of an input's dimensions; a number or `_` leaves one static.
  std::vector<std::string> dynamic;
  /// `ids=tokens`: what an input means.
  std::vector<std::string> roles;
  /// Number of devices; 0: as many as the mesh or the machine says, else 1.
  uint32_t devices = 0;
  /// `pp=4`, `dp=2,tp=2`; `auto`, or `pp=auto,tp=2`: what of it is expected to take least time; empty: all devices are
  /// pipeline stages.
  std::string mesh;
  /// Preset or file; empty: that many CPU devices.
  std::string machine;
  /// Bytes that each device may use, in place of what the machine says; nothing: that.
  std::optional<int64_t> deviceMemory = std::nullopt;
  std::vector<std::string> stageBefore;
  /// `layers.*.wq=colwise`: how weights of these paths are split over tensor ranks; the last match counts.
  std::vector<std::string> shard;
  /// The same in a file, before them: `{"layers.*.wq": "colwise"}`; may be empty.
  std::string shardFile;
  /// Parts of the batch that follow one another through the stages; 0: the number that is predicted to end
  /// first, 1 where the batch does not split; nothing: 0 where the mesh is searched for, else 1. The batch is the dimension
  /// named `batch`, else the first one of the inputs.
  std::optional<uint32_t> microbatches = std::nullopt;
  /// `gpipe`, or `interleaved`: two stages a device; empty or `auto`: both are tried where the mesh is searched for, else gpipe.
  std::string schedule = "";
  /// Globs of module paths whose outputs can be captured.
  std::vector<std::string> capturePoints;
  /// Replace sequences of operators by the one that does the same (pass rewrite-idioms).
  bool rewritesIdioms = true;
  /// What products of float32 matrices are computed in, from weights stored so: `bf16`, or `traced`, as the
  /// model has them.
  std::string dtype = "traced";
  /// The model may call only operators that plans may, and is refused before any of it runs otherwise: where nothing else
  /// keeps it from the user's files.
  bool listedOperators = false;
  /// Run the original and the plan before the plan is put in place.
  bool verify = false;
  /// Directory for the IR after each pass; may be empty.
  std::string emitIr;
  /// Libraries of operators.
  std::vector<std::string> libraries;
  /// Plans of this version have no backward passes: forecastTraining takes this, and compile does not.
  std::optional<TrainingChoice> training;
  /// Told what is being done; may be empty.
  Progress progress;
  /// Ends a search for the mesh early, with the best so far, and a note that says so; null: nobody does. One compilation at a
  /// time.
  SearchStop *stop = nullptr;
};

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

/// Fails (UsageError) where a schedule of this name is none that `compile` makes.
llvm::Error checkScheduleName(llvm::StringRef name);

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
