//===- CompileOptions.h - Options of a compilation --------------*- C++ -*-===//
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

/// Options of a training forecast, as the user gives them; the search chooses those that are left open.
struct TrainingChoice {
  /// `none`, `selective` or `full`; `auto`: the search tries each; `none` without a search.
  std::string recompute = "auto";
  bool sequenceParallel = false;
  /// Stages per rank (virtual pipeline stages) of an interleaved schedule; nothing: two, if the schedule is
  /// interleaved.
  std::optional<uint32_t> interleave = std::nullopt;
  /// ZeRO stage, 0 to 3; nothing: the search tries each; 0 without a search.
  std::optional<uint32_t> zero = std::nullopt;
};

/// The update of the weights in a training step.
struct UpdateOptions {
  /// `adamw`, `sgd(momentum=0.9, nesterov=true)`: an optimizer of torch.optim and what differs from its
  /// defaults: weight_decay, momentum, nesterov, beta1, beta2, eps.
  std::string optimizer = "adamw";
  /// Globs of names of weights without weight decay.
  std::vector<std::string> noDecay;
  /// The largest norm of all gradients together, see OptimizerOptions::clipNorm.
  std::optional<double> clipNorm;
};

/// A plan whose outputs are a loss and its gradients, too; or, with `update`, one that trains.
struct GradientOptions {
  /// The loss, `cross_entropy(logits, labels)` (see attachLoss), or the name of an output; empty: the output
  /// called `loss`.
  std::string loss;
  /// Globs of names of parameters that are trained; empty: all.
  std::vector<std::string> trainable;
  /// Globs of paths of modules whose activations the backward pass recomputes; or one of
  /// `full` (of each item of a list of modules), `selective`, `minimum-cut`: see RecomputeKind. Empty: none.
  std::vector<std::string> recompute;
  std::optional<UpdateOptions> update;
};

struct CompileOptions {
  /// A TorchScript file, and the output directory.
  std::string model, output;
  /// False: makes the plan for the report only; `output` and `verify` are ignored.
  bool writePlan = true;
  /// Safetensors files with the names, dtypes and shapes of example inputs, one for each signature: `FILE`,
  /// or `NAME=FILE`. Without a name the first is `forward`, others are called by their file
  /// (`decode.inputs.safetensors`: `decode`). Empty: one signature, `forward`, from `inputs` alone.
  std::vector<std::string> inputsFiles;
  /// Example inputs: `ids:i64[4,128]` is a tensor, `sr=16000` a scalar whose value the plan keeps. This and
  /// the following two are for one signature if its name and a slash come first: `decode/ids:i64[4,1]`; else
  /// for all that have the input.
  std::vector<std::string> inputs;
  /// `ids=batch,seq`: names of an input's dimensions; a number or `_` leaves one static.
  std::vector<std::string> dynamic;
  /// `ids=tokens`: what an input means: tokens, attention_mask, positions or labels.
  std::vector<std::string> roles;
  /// `decode=100`: how often a signature is requested, relative to the others (1); costs count so much.
  std::vector<std::string> frequencies;
  /// Number of devices; 0: that of the mesh or the machine, else 1.
  uint32_t devices = 0;
  /// `pp=4`, or `dp=2,tp=2`. `auto`, or `pp=auto,tp=2`: searches for the values with the least predicted
  /// time. Empty: all devices are pipeline stages.
  std::string mesh;
  /// Preset or file; empty: CPU devices.
  std::string machine;
  /// Bytes that each device may use, in place of the machine's value; nothing: the machine's.
  std::optional<int64_t> deviceMemory = std::nullopt;
  std::vector<std::string> stageBefore;
  /// `layers.*.wq=colwise`: how weights with these paths are split over tensor-parallel ranks; the last match
  /// wins.
  std::vector<std::string> shard;
  /// A file with such rules, which come first: `{"layers.*.wq": "colwise"}`; may be empty.
  std::string shardFile;
  /// Number of micro-batches. 0: the number with the least predicted time, or 1 if the batch cannot be split.
  /// Not set: as 0 if the mesh is searched for, else 1. The batch dimension is the one named `batch`, else
  /// the first dimension of the first input, and of every input whose first dimension has that size.
  std::optional<uint32_t> microbatches = std::nullopt;
  /// `gpipe`, or `interleaved`: two stages per device. Empty or `auto`: the search tries both; gpipe without
  /// a search.
  std::string schedule = "";
  /// Globs of module paths. Passes do not fuse across the results of these modules, and the plan lists them
  /// as capture points (plan::CapturePoint).
  std::vector<std::string> capturePoints;
  /// Other modules are capture points, too, where their results are not fused away. Not of training plans.
  bool observesModules = true;
  /// Replace operator sequences by equivalent fused operators (pass rewrite-idioms).
  bool rewriteIdioms = true;
  /// Dtype of float32 contractions and of their stored weights: `bf16`, or `traced` to keep the model's.
  std::string dtype = "traced";
  /// Reject a model that calls operators that plans may not, before any of it runs. Used where nothing else
  /// protects the user's files.
  bool requireListedOperators = false;
  /// Run the original and the plan before the plan is committed.
  bool verify = false;
  /// Open dimensions whatever cleave-trace has found where it compared the trace with the module. The plan
  /// then has no range of sizes for them, and `verify` does not compare it with the module.
  bool beyondWitnesses = false;
  /// Directory for the IR after each pass; may be empty.
  std::string emitIr;
  /// Libraries of operators.
  std::vector<std::string> libraries;
  /// For one device; micro-batches where `update` is set.
  std::optional<GradientOptions> gradients = std::nullopt;
  /// Of forecastTraining alone.
  std::optional<TrainingChoice> training;
  /// Reports progress; may be empty.
  Progress progress;
  /// Ends the process, with the message, if IR does not parse (`tools/cleave-opt/ParseCheck.h`). Empty: the
  /// process goes on, which is safe for trusted IR only.
  std::function<void(const std::string &)> onParseError;
  /// Ends a search for the mesh early, with the best result so far and a note; null: the search is not
  /// stopped. For one compilation at a time.
  StopSource *stop = nullptr;
};

/// Fails (UsageError) if `compile` has no schedule of this name.
llvm::Error checkScheduleName(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_COMPILEOPTIONS_H
