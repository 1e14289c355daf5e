//===- Verify.cpp - `cleave verify` ---------------------------------------===//
#include "tools/driver/Verify.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/Output.h"
#include "tools/cleave/ProgressBar.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

namespace cleave {

static llvm::json::Value number(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
}

static void printJson(const VerifyReport &report) {
  llvm::json::Array outputs;
  for (auto &output : report.outputs) {
    llvm::json::Object entry{{"name", output.name},
                             {"shape", llvm::json::Array(output.shape)},
                             {"ok", output.ok},
                             {"max_abs_error", number(output.maxAbsError)},
                             {"max_rel_error", number(output.maxRelError)},
                             {"error", number(output.error)},
                             {"allowed", output.allowed}};
    if (!output.sizes.empty())
      entry["sizes"] = output.sizes;
    if (output.call)
      entry["call"] = output.call;
    outputs.push_back(std::move(entry));
  }
  llvm::json::Object result{{"ok", report.ok()},
                            {"max_abs_error", number(report.maxAbsError())},
                            {"max_rel_error", number(report.maxRelError())},
                            {"outputs", std::move(outputs)},
                            {"skipped_sizes", llvm::json::Array(report.skipped)}};
  llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(result)));
}

static void printText(const VerifyReport &report) {
  for (auto &output : report.outputs)
    llvm::outs() << llvm::formatv(
        "{0} {1}: largest error {2:e1}, allowed {3:e1}\n", output.ok ? "same" : "DIFFERENT", output.describe(),
        output.error, output.allowed);
  for (const std::string &sizes : report.skipped)
    llvm::outs() << "not compared at " << sizes << "\n";
}

static llvm::Error runVerify(VerifyOptions options, bool json, bool quiet) {
  std::optional<ProgressBar> bar;
  if (!quiet)
    options.progress = showOn(bar);
  auto report = verify(options);
  bar.reset();
  if (!report)
    return report.takeError();
  if (json)
    printJson(*report);
  else if (!quiet)
    printText(*report);
  if (auto error = finishOutput())
    return error;
  for (auto &output : report->outputs)
    if (!output.ok)
      return llvm::createStringError("%s: differs from %s in %s: found an error of %g, allowed %g",
                                     options.plan.c_str(), options.model.c_str(), output.describe().c_str(),
                                     output.error, output.allowed);
  return llvm::Error::success();
}

void addVerifyCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<VerifyOptions>();
  auto json = std::make_shared<bool>(false), quiet = std::make_shared<bool>(false);
  auto limits = std::make_shared<Limits>();
  CLI::App *command = app.add_subcommand("verify", "Compare a plan with the model it was made from");
  command->add_option("plan", options->plan, "The plan's folder")->required()->type_name("FOLDER");
  command->add_option("--model", options->model, "The TorchScript file")->required()->type_name("FILE");
  command
      ->add_option("--inputs", options->inputsFile,
                   "Inputs by name, a safetensors file; else MODEL.inputs.safetensors, else made up")
      ->type_name("FILE");
  command->add_option("--devices", options->devices, "One device a rank, cpu:N or cuda:N: cpu:0,cuda:0")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(deviceName())
      ->type_name("DEVICES");
  command->add_option("--timeout", options->timeoutSeconds, "Seconds that one run of the plan may take")
      ->check(CLI::Range(uint64_t(1), uint64_t(1000000000)).description(""))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--library", options->libraries, "A library of operators, as torch loads them")
      ->allow_extra_args(false)
      ->type_name("FILE");
  addLimits(command, *limits);
  command->add_flag("--json", *json, "Report as one JSON object");
  command->add_flag("--quiet", *quiet, "Say nothing but errors, and what --json reports");
  command->footer("example:\n  cleave verify gpt2.plan --model gpt2.pt");
  command->callback([options, json, quiet, limits, &chosen] {
    chosen = {[options, json, quiet] { return runVerify(*options, *json, *quiet); }, *limits, options->model};
  });
}

} // namespace cleave
