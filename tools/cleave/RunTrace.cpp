//===- RunTrace.cpp - What the ranks of a run did -------------------------===//
#include "tools/cleave/RunTrace.h"
#include "codegen/plan/Printable.h"
#include "tools/cleave/TraceFile.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <array>
#include <tuple>
#include <vector>

namespace cleave {

using runtime::TraceEvent;
using Time = TraceEvent::Clock::time_point;

// As lines:
//
//   device RANK NAME
//   event REQUEST RANK KIND STAGE MICROBATCH PEER BEGIN END

/// Times of two ranks can be subtracted.
static constexpr int64_t kLatest = INT64_MAX / 4;

static int64_t ticks(Time time) { return time.time_since_epoch().count(); }
static Time timeOf(int64_t ticks) { return Time(Time::duration(ticks)); }

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

using Numbers = std::array<int64_t, 8>;

/// False for a line that is none.
static bool read(llvm::StringRef line, Numbers &numbers) {
  bool isOne = true;
  for (int64_t &number : numbers) {
    auto [word, rest] = line.split(' ');
    isOne = isOne && !word.getAsInteger(10, number) && number >= 0 && number <= kLatest;
    line = rest;
  }
  return isOne && line.empty();
}

static TraceEvent eventOf(llvm::StringRef line) {
  Numbers numbers{};
  (void)read(line, numbers);
  TraceEvent event{uint64_t(numbers[0]), uint32_t(numbers[1]), {}, timeOf(numbers[6]), timeOf(numbers[7])};
  event.action.kind = plan::ActionKind(numbers[2]);
  event.action.stage = uint32_t(numbers[3]);
  event.action.microbatch = uint32_t(numbers[4]);
  event.action.peer = uint32_t(numbers[5]);
  return event;
}

static TraceRow rowOf(llvm::StringRef line) {
  auto [rank, name] = line.split(' ');
  TraceRow row{0, plan::printable(name), {}};
  (void)rank.getAsInteger(10, row.rank);
  return row;
}

/// Whether `packed` is what `packTrace` writes of the devices and events of `rank`.
static bool isTraceOf(const plan::Plan &plan, llvm::StringRef packed, size_t rank) {
  while (!packed.empty()) {
    llvm::StringRef line;
    Numbers numbers{};
    std::tie(line, packed) = packed.split('\n');
    if (line.consume_front("device ")) {
      if (line.split(' ').first != std::to_string(rank))
        return false;
    } else if (!line.consume_front("event ") || !read(line, numbers) || numbers[1] != int64_t(rank) ||
               numbers[2] > int64_t(plan::ActionKind::MAX) || numbers[3] >= int64_t(plan.stages.size()) ||
               numbers[4] > UINT32_MAX || numbers[5] > UINT32_MAX || numbers[6] > numbers[7]) {
      return false;
    }
  }
  return true;
}

llvm::Error checkPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed) {
  for (auto [rank, words] : llvm::enumerate(packed))
    if (packed.size() > 1 && !isTraceOf(plan, words, rank))
      return llvm::createStringError("a message of rank %zu: found no trace of it", rank);
  return llvm::Error::success();
}

std::string formatPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed) {
  llvm::MapVector<uint32_t, TraceRow> rows;
  for (llvm::StringRef rest : packed)
    while (!rest.empty()) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (line.consume_front("device ")) {
        TraceRow row = rowOf(line);
        rows.insert({row.rank, std::move(row)});
      } else if (line.consume_front("event ")) {
        TraceEvent event = eventOf(line);
        if (auto row = rows.find(event.rank); row != rows.end())
          row->second.events.push_back(std::move(event));
      }
    }
  std::vector<TraceRow> ordered;
  for (auto &[rank, row] : rows)
    ordered.push_back(std::move(row));
  return formatTrace(ordered, modulePathsOf(plan));
}

} // namespace cleave
