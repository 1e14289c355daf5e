//===- TraceMerge.cpp - Merges the traces of processes --------------------===//
#include "tools/cleave/run/TraceMerge.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/device/PlanRanks.h"
#include "tools/cleave/run/RankMessage.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <vector>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::TraceEvent;
using Time = TraceEvent::Clock::time_point;

namespace json = llvm::json;

/// Largest time: times of two processes can be subtracted.
static constexpr int64_t kLatest = INT64_MAX / 4;
/// Most bytes of one process.
static constexpr uint64_t kMaxBytes = uint64_t(1) << 36;

namespace {
/// First message of a process, before its chunks.
struct Heading {
  uint64_t bytes = 0;
  /// In ticks of the clock.
  int64_t begin = 0;
  /// Names of its devices, by rank.
  json::Object names;
};
} // namespace

static Error notATrace(size_t process) {
  return llvm::createStringError(
      "a message of rank %zu: found no trace of it; run the same cleave in all processes", process);
}

static uint64_t chunksFor(uint64_t bytes) { return llvm::divideCeil(bytes, TraceSpool::kChunkBytes); }

std::string TraceMerge::heading(llvm::ArrayRef<runtime::DeviceStatistics> devices, const TraceSpool &spool) {
  json::Object names;
  for (const runtime::DeviceStatistics &device : devices)
    names[std::to_string(device.rank)] = device.name;
  // A process without events has no begin.
  const int64_t begin = std::min(spool.firstActionBegin().time_since_epoch().count(), kLatest);
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(
      json::Object{{"bytes", int64_t(spool.bytes())}, {"begin", begin}, {"names", std::move(names)}});
  return text;
}

static std::optional<Heading> readHeading(llvm::StringRef text) {
  Expected<json::Value> value = parseMessage(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const json::Object *object = value->getAsObject();
  const json::Object *names = object ? object->getObject("names") : nullptr;
  if (!names)
    return std::nullopt;
  const std::optional<int64_t> bytes = object->getInteger("bytes"), begin = object->getInteger("begin");
  if (!bytes || *bytes < 0 || uint64_t(*bytes) > kMaxBytes || !begin || *begin < 0 || *begin > kLatest)
    return std::nullopt;
  return Heading{uint64_t(*bytes), *begin, *names};
}

Expected<uint64_t> TraceMerge::begin(llvm::ArrayRef<std::string> headings) {
  Time start = Time(Time::duration(kLatest));
  uint64_t bytes = 0;
  std::vector<std::optional<std::string>> names(runtime::rankCount(plan));
  for (auto [process, text] : llvm::enumerate(headings)) {
    const std::optional<Heading> heading = readHeading(text);
    if (!heading)
      return notATrace(process);
    start = std::min(start, Time(Time::duration(heading->begin)));
    bytes = std::max(bytes, heading->bytes);
    left.push_back(heading->bytes);
    for (const auto &[key, name] : heading->names) {
      uint32_t rank = 0;
      if (llvm::StringRef(key).getAsInteger(10, rank) || rank >= names.size() || !name.getAsString() ||
          (headings.size() > 1 && rank != process))
        return notATrace(process);
      names[rank] = plan::printable(*name.getAsString());
    }
  }
  writer.emplace(out, start, modulePathsOf(plan));
  for (auto [rank, name] : llvm::enumerate(names))
    if (name)
      writer->nameThread(rank, traceLabel(rank, *name));
  return chunksFor(bytes);
}

Expected<uint64_t> TraceMerge::chunksOf(uint32_t process, llvm::StringRef text) {
  uint64_t chunks = 0;
  if (text.getAsInteger(10, chunks) || chunks > chunksFor(kMaxBytes))
    return notATrace(process);
  return chunks;
}

Error TraceMerge::flush() {
  Error error = sink(text);
  text.clear();
  return error;
}

bool TraceMerge::isOf(uint32_t process, const TraceEvent &event) const {
  const int64_t begin = event.begin.time_since_epoch().count(), end = event.end.time_since_epoch().count();
  return event.rank < runtime::rankCount(plan) && (left.size() == 1 || event.rank == process) &&
         event.action.stage < plan.stages.size() && begin >= 0 && begin <= end && end <= kLatest;
}

Error TraceMerge::add(uint32_t process, llvm::StringRef chunk) {
  const uint64_t expected = std::min(left[process], TraceSpool::kChunkBytes);
  if (chunk.size() != expected)
    return llvm::createStringError("a message of rank " + llvm::Twine(process) + ": found " +
                                   llvm::Twine(chunk.size()) + " bytes of its trace, expected " +
                                   llvm::Twine(expected) + "; run the same cleave in all processes");
  left[process] -= expected;
  bool isOwn = true;
  const bool isWhole = TraceSpool::unpack(chunk, [&](const TraceEvent &event) {
    isOwn = isOwn && isOf(process, event);
    if (isOwn)
      writer->add(event.rank, event);
  });
  return isWhole && isOwn ? flush() : notATrace(process);
}

Error TraceMerge::finish() {
  writer->finish();
  return flush();
}

} // namespace cleave
