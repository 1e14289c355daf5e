//===- RunReport.h - What `cleave run` prints -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H

#include "runtime/base/TensorFile.h"
#include "tools/cleave/run/RunMeasurement.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>

namespace cleave {

/// What all processes of a run have measured.
class RunReport {
public:
  /// The part of this process, as text that another one merges: its devices, and the outputs that it got.
  static std::string partOf(const Measurement &measurement, llvm::ArrayRef<runtime::NamedTensor> outputs);

  /// \param own    what this process measured.
  /// \param parts  of all processes.
  /// \param microbatches  that a request goes through the stages in.
  static llvm::Expected<RunReport> merge(const plan::Plan &plan, const Measurement &own,
                                         llvm::ArrayRef<std::string> parts, int64_t microbatches);

  llvm::json::Object toJson() const;
  void printText(llvm::raw_ostream &out) const;

private:
  struct Device {
    std::string name;
    int64_t peakBytes, weightBytes;
    double busySeconds, idleSeconds;
  };
  struct Output {
    std::string name, dtype;
    std::vector<int64_t> sizes;
  };

  double secondsPerStep = 0, secondsAlone = 0;
  std::vector<Device> devices;
  std::vector<Output> outputs;
  /// Share of the ranks' time in which they wait while one request has them to itself, and what it is where
  /// all stages take equally long. Nothing for one rank.
  std::optional<double> bubble, bubbleByFormula;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNREPORT_H
