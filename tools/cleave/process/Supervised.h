//===- Supervised.h - Commands that run supervised --------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISED_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISED_H

#include "codegen/plan/text/JsonText.h"
#include "sandbox/Sandbox.h"
#include "tools/cleave/process/Supervisor.h"
#include "tools/cleave/text/Output.h"
#include "tools/cleave/text/ProgressBar.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>
#include <optional>

namespace cleave {

/// How a command handles an untrusted file, and how it reports.
struct SupervisedOptions {
  ProcessLimits limits;
  /// The model is the user's own: no sandbox.
  bool trust = false;
  /// The file is a model, not a plan: work on it is supervised.
  bool isModel = true;
  bool json = false, quiet = false;
};

/// Adds --trust, --memory-limit, --time-limit, --json and --quiet.
void addSupervisedOptions(CLI::App *command, SupervisedOptions &options);

/// Confinement of work on `file`, which the work may read and nothing else.
Confinement confine(const std::string &file, const SupervisedOptions &how);

/// True if a model may call only operators that plans may: nothing else protects the user's files.
bool needsListedOperators(const SupervisedOptions &how);

/// A line about the sandbox; empty if there is nothing unusual.
std::string noteProtection(const SupervisedOptions &how);

/// The work of a command, and its report as JSON or text.
template <typename Options, typename Report> struct Reporter {
  llvm::Expected<Report> (*work)(const Options &);
  llvm::json::Object (*toJson)(const Options &, const Report &);
  void (*printText)(llvm::raw_ostream &, const Options &, const Report &);
  /// Whether the JSON object has the key `protection`. False for `simulate`, whose object is the same for a
  /// model and for its plan.
  bool saysWhatProtects = true;
};

/// Runs the work, with a progress bar if stderr is a terminal and `quiet` is not set, and prints the report.
template <typename Options, typename Report>
llvm::Expected<Report> workAndReport(Options options, const SupervisedOptions &how,
                                     const Reporter<Options, Report> &reporter) {
  std::optional<ProgressBar> bar;
  if (!how.quiet)
    options.progress = showOn(bar);
  options.requireListedOperators = needsListedOperators(how);
  llvm::Expected<Report> report = reporter.work(options);
  bar.reset();
  if (!report)
    return report;
  if (how.json) {
    llvm::json::Object text = reporter.toJson(options, *report);
    if (how.isModel && reporter.saysWhatProtects)
      text["protection"] = sandbox::current().describe();
    llvm::outs() << plan::jsonText(std::move(text), /*indent=*/2) << "\n";
  } else if (!how.quiet) {
    reporter.printText(llvm::outs(), options, *report);
    llvm::outs() << noteProtection(how);
  }
  if (llvm::Error error = finishOutput())
    return error;
  return report;
}

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISED_H
