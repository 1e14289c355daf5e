//===- Verify.cpp - `cleave verify` ---------------------------------------===//
#include "tools/driver/Verify.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/process/Supervised.h"
#include "tools/cleave/text/Numbers.h"
#include "llvm/ADT/STLExtras.h"
#include <memory>

namespace cleave {

static llvm::json::Value number(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
}

static llvm::json::Object toJson(const VerifyOptions &, const VerifyReport &report) {
  llvm::json::Array outputs;
  for (auto &output : report.outputs) {
    llvm::json::Object entry{{"name", output.name},
                             {"shape", llvm::json::Array(output.shape)},
                             {"ok", output.ok},
                             {"max_abs_error", number(output.maxAbsError)},
                             {"max_rel_error", number(output.maxRelError)},
                             {"error", number(output.error)},
                             {"allowed", output.allowed}};
    if (!output.signature.empty())
      entry["signature"] = output.signature;
    if (!output.sizes.empty())
      entry["sizes"] = output.sizes;
    if (output.call)
      entry["call"] = output.call;
    outputs.push_back(std::move(entry));
  }
  return llvm::json::Object{{"ok", report.ok()},
                            {"max_abs_error", number(report.maxAbsError())},
                            {"max_rel_error", number(report.maxRelError())},
                            {"outputs", std::move(outputs)},
                            {"skipped_sizes", llvm::json::Array(report.skipped)}};
}

static void printText(llvm::raw_ostream &out, const VerifyOptions &, const VerifyReport &report) {
  for (auto &output : report.outputs)
    out << llvm::formatv("{0} {1}: largest error {2:e1}, allowed {3:e1}\n", output.ok ? "same" : "DIFFERENT",
                         plan::printable(output.describe()), output.error, output.allowed);
  for (const std::string &sizes : report.skipped)
    out << "not compared at " << plan::printable(sizes) << "\n";
}

static llvm::Error runVerify(const VerifyOptions &options, const SupervisedOptions &how) {
  auto report = workAndReport<VerifyOptions, VerifyReport>(options, how, {verify, toJson, printText});
  if (!report)
    return report.takeError();
  for (auto &output : report->outputs)
    if (!output.ok)
      return llvm::createStringError("%s: differs from %s in %s: found an error of %g, allowed %g",
                                     options.plan.c_str(), options.model.c_str(), output.describe().c_str(),
                                     output.error, output.allowed);
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
  command->callback([options, how, &chosen] {
    Confinement confinement = confine(options->model, *how);
    confinement.folders = {options->plan};
    confinement.files.push_back(inputsBeside(options->model));
    addInputsFiles(options->inputsFiles, confinement);
    confinement.libraries = options->libraries;
    // A GPU's driver needs more access than a sandbox can grant.
    confinement.unsandboxed |= llvm::any_of(options->devices, isGpu);
    chosen = {[options, how] { return runVerify(*options, *how); }, std::move(confinement)};
  });
}

} // namespace cleave
