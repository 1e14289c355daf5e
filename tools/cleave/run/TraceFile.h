//===- TraceFile.h - Traces for trace viewers -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_TRACEFILE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_TRACEFILE_H

#include "codegen/plan/Plan.h"
#include "partitioner/simulation/Simulator.h"
#include "runtime/base/Trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace cleave {

/// A row of a trace: a rank, or several that act alike.
struct TraceRow {
  uint32_t rank;
  /// Name of its device, or devices.
  std::string name;
  std::vector<runtime::TraceEvent> events;
  /// Memory of each device over time, if known.
  std::vector<MemoryStep> memory = {};
  /// Training: the update of weights after the last action of the step. None unless `updateEnd` is later than
  /// `updateBegin`.
  runtime::TraceEvent::Clock::time_point updateBegin = {}, updateEnd = {};
  /// Sends and receives overlap with computation and with each other, so they are drawn in rows of their own.
  bool overlapsTransfers = false;
};

/// Converts seconds since the beginning of a step.
runtime::TraceEvent::Clock::time_point traceTime(double seconds);

/// A row of a simulation, for devices called `name`.
TraceRow traceRowOf(const RankSimulation &simulated, uint32_t rank, const std::string &name,
                    std::vector<MemoryStep> memory);

/// By stage: its module paths.
std::vector<std::vector<std::string>> modulePathsOf(const plan::Plan &plan);

/// Writes a trace entry by entry, in Chrome's trace format, which Perfetto opens.
class TraceWriter {
public:
  /// \param start        time zero of the trace.
  /// \param modulePaths  by stage; empty if not known.
  TraceWriter(llvm::raw_ostream &out, runtime::TraceEvent::Clock::time_point start,
              std::vector<std::vector<std::string>> modulePaths);
  void nameThread(uint32_t thread, llvm::StringRef name);
  /// \param thread  a row without overlaps (`tid`).
  void add(uint32_t thread, const runtime::TraceEvent &event);
  void add(llvm::json::Object entry);
  /// Call after the last entry.
  void finish();

private:
  llvm::raw_ostream &out;
  const runtime::TraceEvent::Clock::time_point start;
  const std::vector<std::vector<std::string>> modulePaths;
  bool isFirst = true;
};

/// Name of the row of a rank on devices called `device`.
std::string traceLabel(uint32_t rank, llvm::StringRef device);

/// The text of a whole trace: one entry per action, with times from the beginning of the first one, and the
/// memory of devices. Actions on one thread do not overlap.
/// \param modulePaths  by stage; empty if not known.
std::string formatTrace(llvm::ArrayRef<TraceRow> rows, llvm::ArrayRef<std::vector<std::string>> modulePaths);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRACEFILE_H
