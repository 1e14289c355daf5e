//===- Compile.cpp - `cleave compile` -------------------------------------===//
#include "tools/driver/Compile.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/process/Supervised.h"
#include "tools/cleave/text/Candidates.h"
#include "tools/cleave/text/Wording.h"
#include <memory>

namespace cleave {

static llvm::json::Object toJson(const CompileOptions &options, const CompileReport &report) {
  llvm::json::Object result{
      {"plan", options.output},
      {"stages", report.stages},
      {"microbatches", report.microbatches},
      {"mesh", llvm::json::Object{{"pp", report.plan->mesh->pp}, {"dp", report.dp}, {"tp", report.tp}}},
      // Their names in 0.1, until 0.3.
      {"data_ranks", report.dp},
      {"tensor_ranks", report.tp},
      {"weight_bytes", int64_t(report.weightBytes)},
      {"balance", report.balance},
      {"read_seconds", report.readSeconds},
      {"pass_seconds", report.passSeconds},
      {"write_seconds", report.writeSeconds},
      {"verify_seconds", report.verifySeconds},
      {"candidates", toJson(report.plan->candidates)},
      // Their name in 0.1, until 0.3.
      {"alternatives", toJson(report.plan->candidates)},
      {"notes", llvm::json::Array(report.notes)}};
  if (options.verify) {
    result["max_abs_error"] = report.maxAbsError;
    result["error"] = report.error;
    result["allowed"] = report.allowedError;
    result["skipped_sizes"] = llvm::json::Array(report.skipped);
    result["compared"] = llvm::json::Object{{"outputs", int64_t(report.comparedOutputs)},
                                            {"gradients", int64_t(report.comparedGradients)},
                                            {"weights", int64_t(report.comparedWeights)}};
    result["witnesses"] = llvm::json::Array(report.witnesses);
    result["witness_error"] = report.witnessError;
    result["witness_allowed"] = report.witnessAllowed;
  }
  return result;
}

/// `12 outputs, 84 gradients, `; empty where there are outputs alone.
static std::string comparedText(const CompileReport &report) {
  if (report.comparedGradients == 0)
    return "";
  std::string text =
      llvm::formatv("{0} outputs, {1} gradients, ", report.comparedOutputs, report.comparedGradients);
  if (report.comparedWeights > 0)
    text += llvm::formatv("{0} trained weights, ", report.comparedWeights);
  return text;
}

static void printText(llvm::raw_ostream &out, const CompileOptions &options, const CompileReport &report) {
  const bool isSplit = report.tp > 1;
  out << llvm::formatv("{0}: {1} stage{2}", plan::printable(options.output), report.stages,
                       report.stages == 1 ? "" : "s");
  if (report.dp > 1)
    out << " on " << report.dp << " data-parallel ranks"
        << (isSplit ? llvm::formatv(" of {0} tensor-parallel ranks", report.tp).str() : "");
  else if (isSplit)
    out << " on " << report.tp << " tensor-parallel ranks";
  out << ", ";
  if (report.microbatches > 1)
    out << report.microbatches << " micro-batches, ";
  out << llvm::formatv("{0:f1} MB of weights{1}, slowest stage {2:f2} x the mean\n", report.weightBytes / 1e6,
                       isSplit ? " a rank" : "", report.balance);
  for (const std::string &note : report.notes)
    out << "note: " << plan::printable(note) << "\n";
  if (options.verify)
    out << llvm::formatv("same as the original: {0}largest error {1:e1}, allowed {2:e1}\n",
                         comparedText(report), report.error, report.allowedError);
  if (!report.witnesses.empty())
    out << llvm::formatv("same as the module at {0}: largest error {1:e1}, allowed {2:e1}\n",
                         witnessesText(report.witnesses.size()), report.witnessError, report.witnessAllowed);
  for (const std::string &sizes : report.skipped)
    out << "note: not compared at " << plan::printable(sizes) << "\n";
  out << llvm::formatv("read {0:f1} s, passes {1:f1} s, shards {2:f1} s", report.readSeconds,
                       report.passSeconds, report.writeSeconds);
  if (options.verify)
    out << llvm::formatv(", verified {0:f1} s", report.verifySeconds);
  out << "\n";
  printCandidates(out, report.plan->candidates);
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
}

namespace {
struct GivenGradients {
  bool areWanted = false, trains = false;
  GradientOptions options;
  UpdateOptions update;
};
} // namespace

static void addGradientOptions(CLI::App *command, GivenGradients &given) {
  CLI::Option *gradients =
      command->add_flag("--gradients", given.areWanted, "Give the gradients of a loss as outputs, too");
  CLI::Option *train = command
                           ->add_flag("--train", given.trains,
                                      "Make a plan that trains the model (also over --mesh pp=N,tp=M)")
                           ->excludes(gradients);
  command
      ->add_option("--loss", given.options.loss,
                   "The loss: cross_entropy(logits, labels), mse(output, target), …, or an output")
      ->type_name("LOSS");
  repeatable(command->add_option("--trainable", given.options.trainable,
                                 "Parameters that are trained, with * and ? (all)"))
      ->type_name("PATTERN");
  repeatable(
      command->add_option("--recompute", given.options.recompute,
                          "Recomputed activations: of modules with * and ?, full, selective, minimum-cut"))
      ->type_name("PATTERN");
  command
      ->add_option("--optimizer", given.update.optimizer,
                   "Of torch.optim: sgd(momentum=0.9), adam, adamw(weight_decay=0.1, beta2=0.95) (adamw)")
      ->needs(train)
      ->type_name("OPTIMIZER");
  repeatable(command->add_option("--no-decay", given.update.noDecay,
                                 "Parameters without weight decay, with * and ?"))
      ->needs(train)
      ->type_name("PATTERN");
  command
      ->add_option("--clip-norm", given.update.clipNorm, "The largest norm of all gradients together (any)")
      ->needs(train)
      ->type_name("NORM");
}

/// Options that say what is differentiated mean nothing without a flag that wants it.
static void setGradients(const GivenGradients &given, CompileOptions &options) {
  if (!given.areWanted && !given.trains) {
    const std::pair<const char *, bool> others[] = {{"--loss", !given.options.loss.empty()},
                                                    {"--trainable", !given.options.trainable.empty()},
                                                    {"--recompute", !given.options.recompute.empty()}};
    for (auto [option, isGiven] : others)
      if (isGiven)
        throw CLI::RequiresError(option, "--gradients or --train");
    return;
  }
  options.gradients = given.options;
  if (given.trains)
    options.gradients->update = given.update;
}

void addCompileCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<CompileOptions>();
  auto how = std::make_shared<SupervisedOptions>();
  CLI::App *command =
      app.add_subcommand("compile", "Split a TorchScript model over devices and write a plan");
  addFileOptions(command, *options);
  addPlanOptions(command, *options);
  auto deviceMemory = std::make_shared<std::vector<int64_t>>();
  addDeviceMemoryOption(command, *deviceMemory, /*takesSeveral=*/false);
  auto gradients = std::make_shared<GivenGradients>();
  addGradientOptions(command, *gradients);
  command->add_flag("--beyond-witnesses", options->beyondWitnesses,
                    "Open sizes at which the trace was not found to equal the module, too");
  command->add_flag("--verify", options->verify, "Compare with the original before the plan is put in place");
  addSupervisedOptions(command, *how);
  command->footer("example:\n  cleave compile gpt2.pt --inputs gpt2.inputs.safetensors --devices 4 --verify "
                  "-o gpt2.plan");
  command->callback([options, deviceMemory, gradients, how, &chosen] {
    options->stop = makeSharedStop();
    setGradients(*gradients, *options);
    if (!deviceMemory->empty())
      options->deviceMemory = deviceMemory->front();
    auto run = [options, how] {
      return workAndReport<CompileOptions, CompileReport>(*options, *how, {compile, toJson, printText})
          .takeError();
    };
    Confinement confinement = confine(options->model, *how);
    addCompilationAccess(*options, confinement);
    confinement.outputs = {options->output, options->emitIr, {}};
    chosen = {run, std::move(confinement)};
  });
}

} // namespace cleave
