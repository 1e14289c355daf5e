//===- TraceFile.h - What ranks did, for trace viewers ----------*- C++ -*-===//
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
  /// Of its device, or devices.
  std::string name;
  std::vector<runtime::TraceEvent> events;
  /// What each device holds over time, where that is known.
  std::vector<MemoryStep> memory = {};
  /// What follows its last action in a step of training: the update of weights, until `updateEnd` where that
  /// is later.
  runtime::TraceEvent::Clock::time_point updateBegin = {}, updateEnd = {};
  /// Sends and receives go on beside passes, and beside each other: they are drawn in rows of their own.
  bool overlapsTransfers = false;
};

/// Seconds from the begin of a step on.
runtime::TraceEvent::Clock::time_point traceTime(double seconds);

/// A row of what was forecast, of devices called `name`.
TraceRow traceRowOf(const RankForecast &forecast, uint32_t rank, const std::string &name,
                    std::vector<MemoryStep> memory);

/// By stage.
std::vector<std::vector<std::string>> modulePathsOf(const plan::Plan &plan);

/// Writes a trace entry by entry, in Chrome's trace format, which Perfetto opens.
class TraceWriter {
public:
  /// \param start        from which times count.
  /// \param modulePaths  by stage; empty where they are not known.
  TraceWriter(llvm::raw_ostream &out, runtime::TraceEvent::Clock::time_point start,
              std::vector<std::vector<std::string>> modulePaths);
  void nameThread(uint32_t thread, llvm::StringRef name);
  /// \param thread  on which nothing overlaps (`tid`).
  void add(uint32_t thread, const runtime::TraceEvent &event);
  void add(llvm::json::Object entry);
  /// After the last entry.
  void finish();

private:
  llvm::raw_ostream &out;
  const runtime::TraceEvent::Clock::time_point start;
  const std::vector<std::vector<std::string>> modulePaths;
  bool isFirst = true;
};

/// The thread's name for a rank on devices called `device`.
std::string traceLabel(uint32_t rank, llvm::StringRef device);

/// The text of a TraceWriter: an entry an action, from the first one's begin on, and what devices hold. What
/// is on one thread does not overlap.
/// \param modulePaths  by stage; empty where they are not known.
std::string formatTrace(llvm::ArrayRef<TraceRow> rows, llvm::ArrayRef<std::vector<std::string>> modulePaths);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRACEFILE_H
