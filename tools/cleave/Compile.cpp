//===- Compile.cpp - `cleave compile` -------------------------------------===//
#include "tools/driver/Compile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/Supervised.h"
#include <memory>

namespace cleave {

static llvm::json::Object toJson(const CompileOptions &options, const CompileReport &report) {
  llvm::json::Object result{{"plan", options.output},
                            {"stages", report.stages},
                            {"microbatches", report.microbatches},
                            {"tensor_ranks", report.tensorRanks},
                            {"weight_bytes", int64_t(report.weightBytes)},
                            {"balance", report.balance},
                            {"read_seconds", report.readSeconds},
                            {"pass_seconds", report.passSeconds},
                            {"write_seconds", report.writeSeconds},
                            {"verify_seconds", report.verifySeconds},
                            {"notes", llvm::json::Array(report.notes)}};
  if (options.verify) {
    result["max_abs_error"] = report.maxAbsError;
    result["error"] = report.error;
    result["allowed"] = report.allowedError;
    result["skipped_sizes"] = llvm::json::Array(report.skipped);
  }
  return result;
}

static void printText(llvm::raw_ostream &out, const CompileOptions &options, const CompileReport &report) {
  const bool isSplit = report.tensorRanks > 1;
  out << llvm::formatv("{0}: {1} stage{2}", options.output, report.stages, report.stages == 1 ? "" : "s");
  if (isSplit)
    out << " on " << report.tensorRanks << " tensor ranks";
  out << ", ";
  if (report.microbatches > 1)
    out << report.microbatches << " micro-batches, ";
  out << llvm::formatv("{0:f1} MB of weights{1}, slowest stage {2:f2} x the mean\n", report.weightBytes / 1e6,
                       isSplit ? " a rank" : "", report.balance);
  for (const std::string &note : report.notes)
    out << "note: " << note << "\n";
  if (options.verify)
    out << llvm::formatv("same as the original: largest error {0:e1}, allowed {1:e1}\n", report.error,
                         report.allowedError);
  for (const std::string &sizes : report.skipped)
    out << "note: not compared at " << sizes << "\n";
  out << llvm::formatv("read {0:f1} s, passes {1:f1} s, shards {2:f1} s", report.readSeconds,
                       report.passSeconds, report.writeSeconds);
  if (options.verify)
    out << llvm::formatv(", verified {0:f1} s", report.verifySeconds);
  out << "\n";
}

/// A number, or auto, which becomes 0.
static CLI::Validator microbatchesOption() {
  return CLI::Validator(
      [](std::string &text) {
        unsigned count;
        if (text == "auto")
          text = "0";
        else if (llvm::StringRef(text).getAsInteger(10, count) || count < 1 || count > 65536)
          return "found \"" + text + "\", expected a number from 1 to 65536, or auto";
        return std::string();
      },
      "");
}

static void addFileOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("model", options.model, "The model: a TorchScript file")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  command->add_option("-o,--output", options.output, "The plan's folder; a plan that is there is replaced")
      ->required()
      ->type_name("FOLDER");
  command
      ->add_option("--emit-ir", options.emitIr, "A folder for the IR after each pass, also where one fails")
      ->type_name("FOLDER");
  repeatable(
      command->add_option("--library", options.libraries, "A library of operators, as torch loads them"))
      ->type_name("FILE");
}

static void addInputOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("--inputs", options.inputsFile, "Example inputs by name, a safetensors file")
      ->type_name("FILE");
  repeatable(command->add_option("--input", options.inputs,
                                 "An example input, ids:i64[4,128], or a fixed scalar, sr=16000"))
      ->type_name("INPUT");
  repeatable(command->add_option("--dynamic", options.dynamic,
                                 "Names for an input's sizes that may change: ids=batch,seq (_: fixed)"))
      ->type_name("INPUT=NAMES");
  repeatable(
      command->add_option("--role", options.roles,
                          "What an input means, ids=tokens: tokens, attention_mask, positions or labels"))
      ->type_name("INPUT=ROLE");
}

static void addDeviceOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("--devices", options.devices, "How many devices (1, or as many as mesh or machine say)")
      ->check(CLI::Range(1u, 65536u).description(""))
      ->type_name("N");
  command->add_option("--mesh", options.mesh, "How to use them: pp=2,tp=2 (pipeline stages, tensor ranks)")
      ->type_name("AXES");
  command->add_option("--machine", options.machine, "What they are: a preset such as cpu:4, or a file")
      ->type_name("MACHINE");
  repeatable(command->add_option("--stage-before", options.stageBefore, "A module path that begins a stage"))
      ->type_name("PATH");
  repeatable(command->add_option("--shard", options.shard,
                                 "How weights are split: *.wq=colwise, rowwise, embedding_rowwise, replicate"))
      ->type_name("PATTERN=STYLE");
  command->add_option("--shard-file", options.shardFile, "The same as JSON, {\"layers.*.wq\": \"colwise\"}")
      ->type_name("FILE");
  command
      ->add_option("--microbatches", options.microbatches,
                   "Parts of the batch that follow one another, or auto (1)")
      ->transform(microbatchesOption())
      ->type_name("N|auto");
  command
      ->add_option("--schedule", options.schedule,
                   "gpipe, interleaved (two stages a device), or auto (gpipe)")
      ->type_name("NAME");
}

static void addModelOptions(CLI::App *command, CompileOptions &options) {
  repeatable(command->add_option("--capture-points", options.capturePoints,
                                 "Module paths to keep capturable, with * and ?"))
      ->type_name("PATTERN");
  command->add_flag("!--no-idioms", options.rewritesIdioms,
                    "Keep sequences of operators that one operator could do");
  command
      ->add_option("--dtype", options.dtype,
                   "Dtype of float32 products and their weights: bf16, or traced (traced)")
      ->type_name("DTYPE");
  command->add_flag("--verify", options.verify, "Compare with the original before the plan is put in place");
}

void addCompileCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<CompileOptions>();
  auto how = std::make_shared<SupervisedOptions>();
  CLI::App *command =
      app.add_subcommand("compile", "Split a TorchScript model over devices and write a plan");
  addFileOptions(command, *options);
  addInputOptions(command, *options);
  addDeviceOptions(command, *options);
  addModelOptions(command, *options);
  addSupervisedOptions(command, *how);
  command->footer("example:\n  cleave compile gpt2.pt --inputs gpt2.inputs.safetensors --devices 4 --verify "
                  "-o gpt2.plan");
  command->callback([options, how, &chosen] {
    auto run = [options, how] {
      return workAndReport<CompileOptions, CompileReport>(*options, *how, {compile, toJson, printText})
          .takeError();
    };
    chosen = {run, Confinement{options->model, how->limits, !how->quiet}};
  });
}

} // namespace cleave
