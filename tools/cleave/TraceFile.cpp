//===- TraceFile.cpp - What ranks did, for trace viewers ------------------===//
#include "tools/cleave/TraceFile.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>

namespace cleave {

using llvm::json::Array;
using llvm::json::Object;
using runtime::TraceEvent;

/// Names the row of a rank.
static Object rowName(const runtime::DeviceStatistics &device) {
  std::string name = "rank " + std::to_string(device.rank) + " (" + device.name + ")";
  return Object{{"ph", "M"},
                {"pid", 0},
                {"tid", device.rank},
                {"name", "thread_name"},
                {"args", Object{{"name", name}}}};
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

//===- Between processes --------------------------------------------------===//
//
//   device RANK NAME
//   event REQUEST RANK KIND STAGE MICROBATCH PEER BEGIN END

static int64_t ticks(TraceEvent::Clock::time_point time) { return time.time_since_epoch().count(); }

std::string packTrace(llvm::ArrayRef<runtime::DeviceStatistics> devices, llvm::ArrayRef<TraceEvent> events) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const runtime::DeviceStatistics &device : devices)
    out << "device " << device.rank << " " << device.name << "\n";
  for (const auto &[request, rank, action, begin, end] : events)
    out << "event " << request << " " << rank << " " << int(action.kind) << " " << action.stage << " "
        << action.microbatch << " " << action.peer << " " << ticks(begin) << " " << ticks(end) << "\n";
  return text;
}

static TraceEvent eventOf(llvm::StringRef line) {
  std::array<int64_t, 8> numbers{};
  for (int64_t &number : numbers) {
    auto [word, rest] = line.split(' ');
    (void)word.getAsInteger(10, number);
    line = rest;
  }
  using Time = TraceEvent::Clock::time_point;
  TraceEvent event{uint64_t(numbers[0]),
                   uint32_t(numbers[1]),
                   {},
                   Time(Time::duration(numbers[6])),
                   Time(Time::duration(numbers[7]))};
  event.action.kind = plan::ActionKind(numbers[2]);
  event.action.stage = uint32_t(numbers[3]);
  event.action.microbatch = uint32_t(numbers[4]);
  event.action.peer = uint32_t(numbers[5]);
  return event;
}

std::string formatPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed) {
  std::vector<runtime::DeviceStatistics> devices;
  std::vector<TraceEvent> events;
  for (llvm::StringRef rest : packed)
    while (!rest.empty()) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (line.consume_front("event ")) {
        events.push_back(eventOf(line));
      } else if (line.consume_front("device ")) {
        uint32_t rank = 0;
        (void)line.split(' ').first.getAsInteger(10, rank);
        devices.push_back({line.split(' ').second.str(), rank, 0, 0, 0});
      }
    }
  return formatTrace(plan, devices, events);
}

} // namespace cleave
