//===- PlanOptions.cpp - Options of compile and simulate ------------------===//
#include "tools/cleave/PlanOptions.h"
#include "partitioner/machine/Machine.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/driver/base/FilesBeside.h"
#include "tools/driver/base/InputOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

/// Accepts a number, or `auto`, which becomes 0.
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

static void addInputOptions(CLI::App *command, CompileOptions &options) {
  repeatable(command->add_option("--inputs", options.inputsFiles,
                                 "Example inputs by name, a safetensors file for each signature"))
      ->type_name("[NAME=]FILE");
  repeatable(command->add_option("--input", options.inputs,
                                 "An input, ids:i64[4,128] (NAME/ids of a signature), or a scalar, sr=16000"))
      ->type_name("INPUT");
  repeatable(command->add_option("--dynamic", options.dynamic,
                                 "Names for an input's sizes that may change: ids=batch,seq (_: fixed)"))
      ->type_name("INPUT=NAMES");
  repeatable(
      command->add_option("--role", options.roles,
                          "What an input means, ids=tokens: tokens, attention_mask, positions or labels"))
      ->type_name("INPUT=ROLE");
  repeatable(command->add_option("--frequency", options.frequencies,
                                 "How often a signature is requested: decode=100 (1)"))
      ->type_name("NAME=NUMBER");
}

CLI::Validator notEmpty(const std::string &expected) {
  return CLI::Validator(
      [expected](const std::string &text) {
        return text.empty() ? "found nothing, expected " + expected : "";
      },
      "");
}

static void addDeviceOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("--devices", options.devices, "How many devices (1, or as many as mesh or machine say)")
      ->transform(wholeNumber(1, 65536))
      ->type_name("N");
  command
      ->add_option(
          "--mesh", options.mesh,
          "Ranks: pp=2,dp=2,tp=2 (pipeline, data-, tensor-parallel) or auto (Ctrl-C: the best so far)")
      ->check(notEmpty("axes, as pp=2,tp=2, or auto"))
      ->type_name("AXES");
  command
      ->add_option("--machine", options.machine,
                   "The machine (speeds of devices, links): a preset, as cpu:4, or a file of cleave profile")
      ->check(notEmpty("a preset, as cpu:4, or a file"))
      ->type_name("MACHINE");
  repeatable(command->add_option("--stage-before", options.stageBefore, "A module path that begins a stage"))
      ->type_name("PATH");
  repeatable(
      command->add_option("--shard", options.shard,
                          "How weights are split: *.wq=colwise, rowwise, embedding_rowwise, replicate"))
      ->type_name("PATTERN=STYLE");
  command->add_option("--shard-file", options.shardFile, "The same as JSON, {\"layers.*.wq\": \"colwise\"}")
      ->type_name("FILE");
  command
      ->add_option("--microbatches", options.microbatches,
                   "Number of micro-batches, or auto (1; auto with --mesh auto)")
      ->transform(microbatchesOption())
      ->type_name("N|auto");
  command
      ->add_option("--schedule", options.schedule,
                   "gpipe, interleaved (two stages a device), or auto (gpipe); with gradients also 1f1b, zb-h1")
      ->check(notEmpty("a schedule, as gpipe, or auto"))
      ->type_name("NAME");
}

static void addModelOptions(CLI::App *command, CompileOptions &options) {
  CLI::Option *declared = repeatable(
      command->add_option("--capture-points", options.capturePoints,
                          "Module paths that no fused operator may hide from captures, with * and ?"));
  declared->type_name("PATTERN");
  command->add_flag("!--no-capture-points", options.observesModules, "Leave out where module outputs are")
      ->excludes(declared);
  command->add_flag("!--no-idioms", options.rewriteIdioms,
                    "Keep sequences of operators that one operator could do");
  command
      ->add_option("--dtype", options.dtype,
                   "Dtype of float32 products and their weights: bf16, or traced (traced)")
      ->type_name("DTYPE");
  addLibraries(command, options.libraries);
}

/// Replaces each size of the list by its bytes.
static std::string readSizes(std::string &text, bool takesSeveral) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  if (parts.size() > 1 && !takesSeveral)
    return "found \"" + text + "\", expected one size, as a plan is for one; cleave simulate takes several";
  std::vector<std::string> sizes;
  for (llvm::StringRef part : parts) {
    if (std::string error = readSize(sizes.emplace_back(part.trim().str()), /*least=*/1); !error.empty())
      return error;
  }
  text = llvm::join(sizes, ",");
  return "";
}

void addDeviceMemoryOption(CLI::App *command, std::vector<int64_t> &sizes, bool takesSeveral) {
  auto fill = [&sizes](const std::string &text) {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(text).split(parts, ',');
    sizes.assign(parts.size(), 0);
    for (auto [part, size] : llvm::zip(parts, sizes))
      part.getAsInteger(10, size);
  };
  const std::string what = "Memory limit of each device, not the machine's";
  command
      ->add_option_function<std::string>(
          "--device-memory", fill,
          what + (takesSeveral ? "; a list, 80GB,40GB, plans once for each" : ": 80GB"))
      ->transform(
          CLI::Validator([takesSeveral](std::string &text) { return readSizes(text, takesSeveral); }, ""))
      ->type_name(takesSeveral ? "SIZE[,SIZE...]" : "SIZE");
}

void addInputsFiles(llvm::ArrayRef<std::string> texts, Confinement &confinement) {
  // What is wrong with them is reported by who reads them.
  auto files = readSignatureFiles(texts);
  if (!files)
    return llvm::consumeError(files.takeError());
  for (const SignatureFile &file : *files)
    confinement.files.push_back(file.path);
}

void addCompilationAccess(const CompileOptions &options, Confinement &confinement) {
  addInputsFiles(options.inputsFiles, confinement);
  confinement.files.push_back(options.shardFile);
  confinement.files.push_back(witnessesBeside(options.model));
  // A file named like a preset is not what the option means.
  if (!Machine::preset(options.machine))
    confinement.files.push_back(options.machine);
  confinement.libraries = options.libraries;
  confinement.stop = options.stop;
}

void addPlanOptions(CLI::App *command, CompileOptions &options) {
  addInputOptions(command, options);
  addDeviceOptions(command, options);
  addModelOptions(command, options);
}

} // namespace cleave
