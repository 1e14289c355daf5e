//===- RunReport.h - Report of `cleave run` ---------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H

#include "runtime/base/TensorFile.h"
#include "tools/cleave/run/RunMeasurement.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>

namespace cleave {

/// Measurements of all processes of a run.
class RunReport {
public:
  /// Serializes the measurements of this process, for `merge` in another one: its devices, and the outputs
  /// that it got.
  static std::string partOf(const Measurement &measurement, llvm::ArrayRef<runtime::NamedTensor> outputs);

  /// \param own    measurement of this process.
  /// \param parts  of all processes, by `partOf`.
  /// \param microbatches  of a request.
  static llvm::Expected<RunReport> merge(const plan::Plan &plan, const Measurement &own,
                                         llvm::ArrayRef<std::string> parts, int64_t microbatches);

  llvm::json::Object toJson() const;
  void printText(llvm::raw_ostream &out) const;

private:
  struct Device {
    runtime::DeviceStatistics statistics;
    double idleSeconds;
  };
  struct Output {
    std::string name, dtype;
    std::vector<int64_t> sizes;
  };

  double secondsPerStep = 0, secondsAlone = 0;
  std::vector<Device> devices;
  std::vector<Output> outputs;
  /// Share of the ranks' time that is idle while one request runs alone, and the same by the formula for
  /// stages of equal time. Nothing for one rank.
  std::optional<double> bubble, bubbleByFormula;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H
