//===- TraceFile.cpp - Traces for trace viewers ---------------------------===//
#include "tools/cleave/run/TraceFile.h"
#include "codegen/plan/Schedule.h"
#include "codegen/plan/text/JsonText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace cleave {

using llvm::json::Array;
using llvm::json::Object;
using runtime::TraceEvent;
using Clock = TraceEvent::Clock;

std::string traceLabel(uint32_t rank, llvm::StringRef device) {
  return ("rank " + llvm::Twine(rank) + " (" + device + ")").str();
}

static std::string labelOf(const TraceRow &row) { return traceLabel(row.rank, row.name); }

static double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

namespace {
/// A thread of the trace, without overlaps.
struct Lane {
  uint32_t thread;
  std::string name;
  /// Kind of the transfers on it; nothing for a row's own lane.
  std::optional<plan::ActionKind> transfers;
  std::vector<const TraceEvent *> events;
};
} // namespace

static bool isTransfer(const plan::Action &action) { return plan::isTransport(action.kind); }

/// The row's own lane and, if transfers overlap, lanes of sends and of receives: as many as run at once.
/// \param threads  number of threads in use.
static std::vector<Lane> lanesOf(const TraceRow &row, uint32_t &threads) {
  std::vector<Lane> lanes{Lane{row.rank, labelOf(row), std::nullopt, {}}};
  std::vector<const TraceEvent *> events;
  for (const TraceEvent &event : row.events)
    events.push_back(&event);
  llvm::stable_sort(events, [](auto *a, auto *b) { return a->begin < b->begin; });
  for (const TraceEvent *event : events) {
    const plan::ActionKind kind = event->action.kind;
    if (!row.overlapsTransfers || !isTransfer(event->action)) {
      lanes.front().events.push_back(event);
      continue;
    }
    auto lane = llvm::find_if(lanes, [&](const Lane &one) {
      return one.transfers == kind && one.events.back()->end <= event->begin;
    });
    if (lane == lanes.end()) {
      const char *what = plan::isSend(kind) ? ": sends" : ": receives";
      lane = lanes.insert(lane, Lane{threads++, labelOf(row) + what, kind, {}});
    }
    lane->events.push_back(event);
  }
  return lanes;
}

static Object entryOf(uint32_t thread, const std::string &name, llvm::StringRef category,
                      Clock::duration begin, Clock::duration end) {
  return Object{{"ph", "X"},
                {"pid", 0},
                {"tid", thread},
                {"name", name},
                {"cat", category},
                {"ts", microseconds(begin)},
                {"dur", microseconds(end - begin)}};
}

/// A point of the curve of a device's memory.
static Object counterOf(const TraceRow &row, const MemoryStep &step) {
  return Object{{"ph", "C"},
                {"pid", 0},
                {"name", "memory of " + labelOf(row)},
                {"ts", step.seconds * 1e6},
                {"args", Object{{"bytes", step.bytes}}}};
}

static void addRow(TraceWriter &writer, const TraceRow &row, llvm::ArrayRef<Lane> lanes,
                   Clock::time_point start) {
  for (const Lane &lane : lanes)
    for (const TraceEvent *event : lane.events)
      writer.add(lane.thread, *event);
  if (row.updateEnd > row.updateBegin)
    writer.add(entryOf(row.rank, "update", "compute", row.updateBegin - start, row.updateEnd - start));
  for (const MemoryStep &step : row.memory)
    writer.add(counterOf(row, step));
}

Clock::time_point traceTime(double seconds) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

TraceRow traceRowOf(const RankSimulation &simulated, uint32_t rank, const std::string &name,
                    std::vector<MemoryStep> memory) {
  TraceRow row{rank, name, {}, std::move(memory)};
  for (const TimedAction &timed : simulated.timeline)
    row.events.push_back({/*request=*/0, rank, timed.action, traceTime(timed.begin), traceTime(timed.end)});
  return row;
}

std::vector<std::vector<std::string>> modulePathsOf(const plan::Plan &plan) {
  std::vector<std::vector<std::string>> paths;
  for (const auto &stage : plan.stages)
    paths.push_back(stage->module_paths);
  return paths;
}

TraceWriter::TraceWriter(llvm::raw_ostream &out, Clock::time_point start,
                         std::vector<std::vector<std::string>> modulePaths)
    : out(out), start(start), modulePaths(std::move(modulePaths)) {
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
}

void TraceWriter::add(Object entry) {
  if (!std::exchange(isFirst, false))
    out << ",";
  out << plan::jsonText(std::move(entry), /*indent=*/0);
}

void TraceWriter::nameThread(uint32_t thread, llvm::StringRef name) {
  add(Object{
      {"ph", "M"}, {"pid", 0}, {"tid", thread}, {"name", "thread_name"}, {"args", Object{{"name", name}}}});
}

void TraceWriter::add(uint32_t thread, const TraceEvent &event) {
  const plan::Action &action = event.action;
  Object arguments{{"action", plan::wire::EnumNameActionKind(action.kind)},
                   {"stage", action.stage},
                   {"microbatch", action.microbatch},
                   {"request", int64_t(event.request)}};
  if (!modulePaths.empty())
    arguments["module_paths"] = Array(modulePaths[action.stage]);
  Object entry = entryOf(thread, plan::toString(action), isTransfer(action) ? "wait" : "compute",
                         event.begin - start, event.end - start);
  entry["args"] = std::move(arguments);
  add(std::move(entry));
}

void TraceWriter::finish() { out << "]}\n"; }

std::string formatTrace(llvm::ArrayRef<TraceRow> rows, llvm::ArrayRef<std::vector<std::string>> modulePaths) {
  Clock::time_point start = Clock::time_point::max();
  uint32_t threads = 0;
  for (const TraceRow &row : rows) {
    threads = std::max(threads, row.rank + 1);
    for (const TraceEvent &event : row.events)
      start = std::min(start, event.begin);
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  TraceWriter writer(out, start, modulePaths.vec());
  std::vector<std::vector<Lane>> lanes;
  for (const TraceRow &row : rows)
    for (const Lane &lane : lanes.emplace_back(lanesOf(row, threads)))
      writer.nameThread(lane.thread, lane.name);
  for (auto [row, own] : llvm::zip(rows, lanes))
    addRow(writer, row, own, start);
  writer.finish();
  return text;
}

} // namespace cleave
