//===- Supervised.h - What compile, simulate, verify have in common -*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISED_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISED_H

#include "codegen/plan/JsonText.h"
#include "sandbox/Sandbox.h"
#include "tools/cleave/process/Supervisor.h"
#include "tools/cleave/text/Output.h"
#include "tools/cleave/text/ProgressBar.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>
#include <optional>

namespace cleave {

/// How a command works on a file from strangers, and reports.
struct SupervisedOptions {
  Limits limits;
  /// The model is the user's own: no sandbox.
  bool trust = false;
  /// What is read is a model, not a plan: work on it is supervised.
  bool isModel = true;
  bool json = false, quiet = false;
};

/// Adds --trust, --memory-limit, --time-limit, --json and --quiet.
void addSupervisedOptions(CLI::App *command, SupervisedOptions &options);

/// Of work on this model, which it may read and nothing else.
Confinement confine(const std::string &file, const SupervisedOptions &how);

/// Whether a model may call only operators that plans may: nothing else keeps it from the user's files.
bool needsListedOperators(const SupervisedOptions &how);

/// What is to be known of the sandbox: a line, or nothing where it is as ever.
std::string noteProtection(const SupervisedOptions &how);

/// One command's work, and its report in two forms.
template <typename Options, typename Report> struct Reporter {
  llvm::Expected<Report> (*work)(const Options &);
  llvm::json::Object (*toJson)(const Options &, const Report &);
  void (*printText)(llvm::raw_ostream &, const Options &, const Report &);
  /// Whether the object has the key `protection`; not where a plan has to give the same object as its model.
  bool saysWhatProtects = true;
};

/// Works, with a progress bar where one can be drawn and is wanted, and prints the report.
template <typename Options, typename Report>
llvm::Expected<Report> workAndReport(Options options, const SupervisedOptions &how,
                                     const Reporter<Options, Report> &reporter) {
  std::optional<ProgressBar> bar;
  if (!how.quiet)
    options.progress = showOn(bar);
  options.listedOperators = needsListedOperators(how);
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
