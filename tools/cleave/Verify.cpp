//===- Verify.cpp - `cleave verify` ---------------------------------------===//
#include "tools/driver/Verify.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/process/Supervised.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/Wording.h"
#include "tools/driver/base/FilesBeside.h"
#include "llvm/ADT/STLExtras.h"
#include <memory>

namespace cleave {

static llvm::json::Value number(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
}

static llvm::json::Object toJson(const VerifyReport::Compared &compared) {
  llvm::json::Object entry{{"name", compared.name},
                           {"shape", llvm::json::Array(compared.shape)},
                           {"ok", compared.ok},
                           {"max_abs_error", number(compared.maxAbsError)},
                           {"max_rel_error", number(compared.maxRelError)},
                           {"error", number(compared.error)},
                           {"allowed", compared.allowed}};
  if (!compared.signature.empty())
    entry["signature"] = compared.signature;
  if (!compared.sizes.empty())
    entry["sizes"] = compared.sizes;
  if (!compared.witness.empty())
    entry["witness"] = compared.witness;
  if (compared.call)
    entry["call"] = compared.call;
  if (compared.isAgainstFloat64)
    entry["against_float64"] = true;
  return entry;
}

static llvm::json::Object toJson(const VerifyOptions &, const VerifyReport &report) {
  auto listOf = [](llvm::ArrayRef<VerifyReport::Compared> all) {
    llvm::json::Array list;
    for (const VerifyReport::Compared &compared : all)
      list.push_back(toJson(compared));
    return list;
  };
  llvm::json::Object result{{"ok", report.ok()},
                            {"max_abs_error", number(report.maxAbsError())},
                            {"max_rel_error", number(report.maxRelError())},
                            {"outputs", listOf(report.outputs)},
                            {"skipped_sizes", llvm::json::Array(report.skipped)}};
  if (!report.gradients.empty())
    result["gradients"] = listOf(report.gradients);
  if (!report.weights.empty())
    result["weights"] = listOf(report.weights);
  if (!report.witnesses.empty())
    result["witnesses"] = listOf(report.witnesses);
  if (!report.notes.empty())
    result["notes"] = llvm::json::Array(report.notes);
  return result;
}

static void printText(llvm::raw_ostream &out, const VerifyOptions &, const VerifyReport &report) {
  report.forEach([&](VerifyReport::Kind kind, const VerifyReport::Compared &compared) {
    out << llvm::formatv("{0} {1}: largest error {2:e1}, allowed {3:e1}{4}\n",
                         compared.ok ? "same" : "DIFFERENT", plan::printable(describe(kind, compared)),
                         compared.error, compared.allowed, compared.isAgainstFloat64 ? ", by float64" : "");
  });
  if (!report.witnessNames.empty() && report.ok())
    out << "same as the module at " << witnessesText(report.witnessNames.size()) << "\n";
  for (const std::string &sizes : report.skipped)
    out << "not compared at " << plan::printable(sizes) << "\n";
  for (const std::string &note : report.notes)
    out << "note: " << plan::printable(note) << "\n";
}

static llvm::Error runVerify(const VerifyOptions &options, const SupervisedOptions &how) {
  auto report = workAndReport<VerifyOptions, VerifyReport>(options, how, {verify, toJson, printText});
  if (!report)
    return report.takeError();
  if (auto different = report->firstDifference())
    return llvm::createStringError("%s: differs from %s%s in %s: found an error of %g, allowed %g%s",
                                   options.plan.c_str(), different->isFromWitness ? "the module of " : "",
                                   options.model.c_str(), different->name.c_str(), different->error,
                                   different->allowed, describeDraws(report->draws).c_str());
  return llvm::Error::success();
}

void addVerifyCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<VerifyOptions>();
  auto how = std::make_shared<SupervisedOptions>();
  CLI::App *command = app.add_subcommand("verify", "Compare a plan with the model it was made from");
  command->add_option("plan", options->plan, "The plan's folder")
      ->required()
      ->check(fileName())
      ->type_name("FOLDER");
  command->add_option("--model", options->model, "The TorchScript file")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  repeatable(
      command->add_option("--inputs", options->inputsFiles,
                          "Inputs of a signature; else MODEL.inputs.safetensors (no link) or generated"))
      ->type_name("[NAME=]FILE");
  command
      ->add_option("--loss", options->loss,
                   "Of a plan with gradients: the --loss that it was compiled with (the output loss)")
      ->type_name("LOSS");
  auto trainable = std::make_shared<std::vector<std::string>>();
  repeatable(command->add_option("--trainable", *trainable,
                                 "Parameters that it must have gradients of, with * and ? (those it has)"))
      ->type_name("PATTERN");
  command->add_option("--signature", options->signature, "The signature to compare (all)")->type_name("NAME");
  addDeviceNames(command, options->devices,
                 "One device a rank, cpu:N or cuda:N: cpu:0,cuda:0; cuda: a GPU each",
                 /*acceptsBareCuda=*/true);
  command->add_option("--timeout", options->timeoutSeconds, "Seconds that one run of the plan may take")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  addLibraries(command, options->libraries);
  addAllowedOperators(command, options->allowedOperators);
  addSupervisedOptions(command, *how);
  command->footer("example:\n  cleave verify gpt2.plan --model gpt2.pt");
  options->onTimeout = endWithError;
  command->callback([options, trainable, how, &chosen] {
    if (!trainable->empty())
      options->trainable = *trainable;
    Confinement confinement = confine(options->model, *how);
    confinement.folders = {options->plan};
    confinement.files.push_back(inputsBeside(options->model));
    confinement.files.push_back(witnessesBeside(options->model));
    addInputsFiles(options->inputsFiles, confinement);
    confinement.libraries = options->libraries;
    // A GPU's driver needs more access than a sandbox can grant.
    confinement.unsandboxed |= llvm::any_of(options->devices, isGpu);
    chosen = {[options, how] { return runVerify(*options, *how); }, std::move(confinement)};
  });
}

} // namespace cleave
