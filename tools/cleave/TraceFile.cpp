//===- TraceFile.cpp - What ranks did, for trace viewers ------------------===//
#include "tools/cleave/TraceFile.h"
#include "codegen/plan/Schedule.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <chrono>

namespace cleave {

using llvm::json::Array;
using llvm::json::Object;
using runtime::TraceEvent;
using Clock = TraceEvent::Clock;

static std::string labelOf(const TraceRow &row) {
  return "rank " + std::to_string(row.rank) + " (" + row.name + ")";
}

static double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

static Object entryOf(const TraceRow &row, const std::string &name, llvm::StringRef category,
                      Clock::duration begin, Clock::duration end) {
  return Object{{"ph", "X"},
                {"pid", 0},
                {"tid", row.rank},
                {"name", name},
                {"cat", category},
                {"ts", microseconds(begin)},
                {"dur", microseconds(end - begin)}};
}

static Object entryOf(const TraceRow &row, const TraceEvent &event, Clock::time_point start,
                      llvm::ArrayRef<std::vector<std::string>> modulePaths) {
  const plan::Action &action = event.action;
  const bool computes = action.kind != plan::ActionKind::Send && action.kind != plan::ActionKind::Recv;
  Object arguments{{"action", plan::wire::EnumNameActionKind(action.kind)},
                   {"stage", action.stage},
                   {"microbatch", action.microbatch},
                   {"request", int64_t(event.request)}};
  if (!modulePaths.empty())
    arguments["module_paths"] = Array(modulePaths[action.stage]);
  Object entry = entryOf(row, plan::toString(action), computes ? "compute" : "wait", event.begin - start,
                         event.end - start);
  entry["args"] = std::move(arguments);
  return entry;
}

/// A point of the curve that shows what a device holds.
static Object counterOf(const TraceRow &row, const MemoryStep &step) {
  return Object{{"ph", "C"},
                {"pid", 0},
                {"name", "memory of " + labelOf(row)},
                {"ts", step.seconds * 1e6},
                {"args", Object{{"bytes", step.bytes}}}};
}

static void addRow(Array &entries, const TraceRow &row, Clock::time_point start,
                   llvm::ArrayRef<std::vector<std::string>> modulePaths) {
  for (const TraceEvent &event : row.events)
    entries.push_back(entryOf(row, event, start, modulePaths));
  if (row.updateEnd > row.updateBegin)
    entries.push_back(entryOf(row, "update", "compute", row.updateBegin - start, row.updateEnd - start));
  for (const MemoryStep &step : row.memory)
    entries.push_back(counterOf(row, step));
}

Clock::time_point traceTime(double seconds) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

TraceRow traceRowOf(const RankForecast &forecast, uint32_t rank, const std::string &name,
                    std::vector<MemoryStep> memory) {
  TraceRow row{rank, name, {}, std::move(memory)};
  for (const TimedAction &timed : forecast.timeline)
    row.events.push_back({/*request=*/0, rank, timed.action, traceTime(timed.begin), traceTime(timed.end)});
  return row;
}

std::vector<std::vector<std::string>> modulePathsOf(const plan::Plan &plan) {
  std::vector<std::vector<std::string>> paths;
  for (const auto &stage : plan.stages)
    paths.push_back(stage->module_paths);
  return paths;
}

std::string formatTrace(llvm::ArrayRef<TraceRow> rows, llvm::ArrayRef<std::vector<std::string>> modulePaths) {
  Array entries;
  Clock::time_point start = Clock::time_point::max();
  for (const TraceRow &row : rows) {
    entries.push_back(Object{{"ph", "M"},
                             {"pid", 0},
                             {"tid", row.rank},
                             {"name", "thread_name"},
                             {"args", Object{{"name", labelOf(row)}}}});
    for (const TraceEvent &event : row.events)
      start = std::min(start, event.begin);
  }
  for (const TraceRow &row : rows)
    addRow(entries, row, start, modulePaths);
  Object trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(entries)}};
  return llvm::formatv("{0}\n", llvm::json::Value(std::move(trace)));
}

} // namespace cleave
