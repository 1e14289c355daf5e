//===- RunTrace.cpp - The trace of all processes of a run -----------------===//
#include "tools/cleave/RunTrace.h"
#include "runtime/Placement.h"
#include "tools/cleave/TraceFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <optional>
#include <vector>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using plan::AtomicFile;
using runtime::Session;
using runtime::TraceEvent;
using Time = TraceEvent::Clock::time_point;

namespace json = llvm::json;

namespace {
/// What a process says before its chunks come.
struct Heading {
  uint64_t bytes = 0;
  /// As the clock counts.
  int64_t begin = 0;
  /// Of its devices, by rank.
  json::Object names;
};

/// Writes the trace, in the process that has the outputs.
class Merge {
public:
  Merge(const plan::Plan &plan, AtomicFile &file) : plan(plan), file(file) {}
  /// \returns how many chunks the processes will give.
  Expected<uint64_t> begin(llvm::ArrayRef<std::string> headings);
  Error add(uint32_t process, llvm::StringRef chunk);
  Error finish();

private:
  Error flush();

  const plan::Plan &plan;
  AtomicFile &file;
  std::string text;
  llvm::raw_string_ostream out{text};
  std::optional<TraceWriter> writer;
};
} // namespace

static Error notATrace(size_t process) {
  return llvm::createStringError("rank %zu reports what is no trace; run the same cleave in all processes",
                                 process);
}

static std::string headingOf(const Session &session, const TraceSpool &spool) {
  json::Object names;
  for (const runtime::DeviceStatistics &device : session.statistics())
    names[std::to_string(device.rank)] = device.name;
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(
      json::Object{{"bytes", int64_t(spool.bytes())},
                   {"begin", spool.begin().time_since_epoch().count()},
                   {"names", std::move(names)}});
  return text;
}

static std::optional<Heading> readHeading(llvm::StringRef text) {
  Expected<json::Value> value = json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const json::Object *object = value->getAsObject();
  const json::Object *names = object ? object->getObject("names") : nullptr;
  if (!names)
    return std::nullopt;
  const std::optional<int64_t> bytes = object->getInteger("bytes"), begin = object->getInteger("begin");
  if (!bytes || *bytes < 0 || !begin)
    return std::nullopt;
  return Heading{uint64_t(*bytes), *begin, *names};
}

Expected<uint64_t> Merge::begin(llvm::ArrayRef<std::string> headings) {
  Time start = Time::max();
  uint64_t bytes = 0;
  std::vector<std::optional<std::string>> names(runtime::rankCount(plan));
  for (auto [process, text] : llvm::enumerate(headings)) {
    const std::optional<Heading> heading = readHeading(text);
    if (!heading)
      return notATrace(process);
    start = std::min(start, Time(Time::duration(heading->begin)));
    bytes = std::max(bytes, heading->bytes);
    for (const auto &[key, name] : heading->names) {
      uint32_t rank = 0;
      if (llvm::StringRef(key).getAsInteger(10, rank) || rank >= names.size() || !name.getAsString())
        return notATrace(process);
      names[rank] = name.getAsString()->str();
    }
  }
  writer.emplace(out, start, modulePathsOf(plan));
  for (auto [rank, name] : llvm::enumerate(names))
    if (name)
      writer->nameThread(rank, traceLabel(rank, *name));
  return llvm::divideCeil(bytes, TraceSpool::kChunkBytes);
}

Error Merge::flush() {
  Error error = file.write(llvm::arrayRefFromStringRef(text));
  text.clear();
  return error;
}

Error Merge::add(uint32_t process, llvm::StringRef chunk) {
  bool isKnown = true;
  const bool isWhole = TraceSpool::unpack(chunk, [&](const TraceEvent &event) {
    isKnown = isKnown && event.rank < runtime::rankCount(plan) && event.action.stage < plan.stages.size();
    if (isKnown)
      writer->add(event.rank, event);
  });
  return isWhole && isKnown ? flush() : notATrace(process);
}

Error Merge::finish() {
  writer->finish();
  return flush();
}

Error writeRunTrace(Session &session, const TraceSpool &spool, AtomicFile *file) {
  const uint32_t to = session.outputProcess();
  auto headings = session.gather(headingOf(session, spool), to);
  if (!headings)
    return headings.takeError();
  std::optional<Merge> merge;
  uint64_t chunks = 0;
  if (file)
    if (Error error = merge.emplace(session.plan(), *file).begin(*headings).moveInto(chunks))
      return error;
  Expected<std::string> shared = session.share(std::to_string(chunks), to);
  if (!shared)
    return shared.takeError();
  (void)llvm::StringRef(*shared).getAsInteger(10, chunks);
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    auto own = spool.read(chunk * TraceSpool::kChunkBytes);
    if (!own)
      return own.takeError();
    auto all = session.gather(*own, to);
    if (!all)
      return all.takeError();
    for (size_t process = 0; merge && process < all->size(); ++process)
      if (Error error = merge->add(process, (*all)[process]))
        return error;
  }
  return merge ? merge->finish() : Error::success();
}

} // namespace cleave
