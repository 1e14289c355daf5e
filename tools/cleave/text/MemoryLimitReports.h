//===- MemoryLimitReports.h - Reports by memory limit -----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_MEMORYLIMITREPORTS_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_MEMORYLIMITREPORTS_H

#include "codegen/plan/text/Printable.h"
#include "tools/cleave/text/Wording.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// Report of a command for one limit of the devices' memory.
template <typename Report> struct MemoryLimitReport {
  int64_t deviceMemory;
  /// Wall-clock seconds of planning; the first one includes reading the model.
  double planningSeconds;
  std::optional<Report> report = std::nullopt;
  /// Set if there is no report.
  std::string error = {};
};

/// Calls `plan` for each limit, in order. Fails on wrong usage, and if no limit has a plan.
template <typename Report>
llvm::Expected<std::vector<MemoryLimitReport<Report>>>
planEach(const std::vector<int64_t> &limits, llvm::function_ref<llvm::Expected<Report>(int64_t)> plan) {
  std::vector<MemoryLimitReport<Report>> reports;
  bool isAny = false;
  for (int64_t limit : limits) {
    const auto start = std::chrono::steady_clock::now();
    llvm::Expected<Report> report = plan(limit);
    if (!report && report.template errorIsA<UsageError>())
      return report.takeError();
    MemoryLimitReport<Report> &one = reports.emplace_back(MemoryLimitReport<Report>{
        limit, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
    if (report)
      one.report = std::move(*report);
    else
      one.error = toString(report.takeError());
    isAny |= one.error.empty();
  }
  if (!isAny)
    return llvm::createStringError(reports.front().error);
  return reports;
}

/// One JSON object with the list `limits[]`: each limit, and what the command reports for it alone.
template <typename Options, typename Report>
llvm::json::Object limitsToJson(const Options &options,
                                const std::vector<MemoryLimitReport<Report>> &reports) {
  // Reports of a thousand devices take hundreds of megabytes, and an array that grows copies them.
  llvm::json::Array limits;
  limits.reserve(reports.size());
  for (const MemoryLimitReport<Report> &one : reports) {
    llvm::json::Object entry =
        one.report ? toJson(options, *one.report) : llvm::json::Object{{"error", one.error}};
    entry["device_memory"] = one.deviceMemory;
    entry["planning_seconds"] = one.planningSeconds;
    limits.push_back(std::move(entry));
  }
  return llvm::json::Object{{"limits", std::move(limits)}};
}

/// Prints one block per limit, under a heading.
template <typename Options, typename Report>
void printLimits(llvm::raw_ostream &out, const Options &options,
                 const std::vector<MemoryLimitReport<Report>> &reports) {
  for (const MemoryLimitReport<Report> &one : reports) {
    out << (&one == &reports.front() ? "" : "\n")
        << llvm::formatv("--device-memory {0}, planned in {1:f2} s\n", sizeText(one.deviceMemory),
                         one.planningSeconds);
    if (one.report)
      printText(out, options, *one.report);
    else
      out << plan::printable(one.error) << "\n";
  }
}

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_MEMORYLIMITREPORTS_H
