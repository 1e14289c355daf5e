//===- TraceFile.cpp - What ranks did, for trace viewers ------------------===//
#include "tools/cleave/TraceFile.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <chrono>

namespace cleave {

using llvm::json::Array;
using llvm::json::Object;
using runtime::TraceEvent;

/// Names the row of a rank.
static Object rowName(const runtime::DeviceStatistics &device) {
  std::string name = "rank " + std::to_string(device.rank) + " (" + device.name + ")";
  return Object{{"ph", "M"}, {"pid", 0}, {"tid", device.rank}, {"name", "thread_name"}, {"args", Object{{"name", name}}}};
}

static double microseconds(TraceEvent::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

static Object entryOf(const plan::Plan &plan, const TraceEvent &event, TraceEvent::Clock::time_point start) {
  const plan::Action &action = event.action;
  bool computes = action.kind != plan::ActionKind::Send && action.kind != plan::ActionKind::Recv;
  return Object{{"ph", "X"},
                {"pid", 0},
                {"tid", event.rank},
                {"name", plan::toString(action)},
                {"cat", computes ? "compute" : "wait"},
                {"ts", microseconds(event.begin - start)},
                {"dur", microseconds(event.end - event.begin)},
                {"args", Object{{"action", plan::wire::EnumNameActionKind(action.kind)},
                                {"stage", action.stage},
                                {"microbatch", action.microbatch},
                                {"request", int64_t(event.request)},
                                {"module_paths", Array(plan.stages[action.stage]->module_paths)}}}};
}

/// A point of the curve that shows what a device holds.
static Object counterOf(const runtime::DeviceStatistics &device, const MemoryStep &step) {
  return Object{{"ph", "C"},
                {"pid", 0},
                {"name", "memory of rank " + std::to_string(device.rank) + " (" + device.name + ")"},
                {"ts", step.seconds * 1e6},
                {"args", Object{{"bytes", step.bytes}}}};
}

std::string formatTrace(const plan::Plan &plan, llvm::ArrayRef<runtime::DeviceStatistics> devices,
                        llvm::ArrayRef<TraceEvent> events, llvm::ArrayRef<std::vector<MemoryStep>> memory) {
  Array entries;
  for (const runtime::DeviceStatistics &device : devices)
    entries.push_back(rowName(device));
  TraceEvent::Clock::time_point start = TraceEvent::Clock::time_point::max();
  for (const TraceEvent &event : events)
    start = std::min(start, event.begin);
  for (const TraceEvent &event : events)
    entries.push_back(entryOf(plan, event, start));
  for (auto [device, steps] : llvm::zip(devices, memory))
    for (const MemoryStep &step : steps)
      entries.push_back(counterOf(device, step));
  Object trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(entries)}};
  return llvm::formatv("{0}\n", llvm::json::Value(std::move(trace)));
}

} // namespace cleave
