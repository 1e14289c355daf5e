//===- CompileOptions.h - What a model is compiled to -----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_COMPILEOPTIONS_H
#define CLEAVE_TOOLS_DRIVER_BASE_COMPILEOPTIONS_H

#include "tools/driver/base/Progress.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

class StopSource;

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
  /// Example inputs: `ids:i64[4,128]` is a tensor, `sr=16000` a scalar whose value the plan keeps.
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
  /// Number of micro-batches. 0: the number with the least predicted time, or 1 where the batch does not split. Not set: as 0
  /// where the mesh is searched for, else 1. The batch is the dimension named `batch`, else the first one of the inputs.
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
  /// Ends the process, with what is said of IR that does not parse (`tools/cleave-opt/ParseCheck.h`). Empty: it
  /// goes on, as is well for IR of one's own.
  std::function<void(const std::string &)> endUnparsed;
  /// Ends a search for the mesh early, with the best so far, and a note that says so; null: nobody does. One compilation at a
  /// time.
  StopSource *stop = nullptr;
};

/// Fails (UsageError) where a schedule of this name is none that `compile` makes.
llvm::Error checkScheduleName(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_COMPILEOPTIONS_H
