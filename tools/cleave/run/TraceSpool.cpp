//===- TraceSpool.cpp - Trace events on disk ------------------------------===//
#include "tools/cleave/run/TraceSpool.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <unistd.h>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::TraceEvent;
using Time = TraceEvent::Clock::time_point;

// A record: request, begin and end (64 bits each), rank, kind, stage, micro-batch and peer (32 bits each).
static constexpr size_t kRecordBytes = 3 * 8 + 5 * 4;
const uint64_t TraceSpool::kChunkBytes = kRecordBytes * 1024;

//===- Records ------------------------------------------------------------===//

template <typename Integer> static void put(std::string &text, Integer value) {
  char bytes[sizeof(Integer)];
  llvm::support::endian::write(bytes, value, llvm::endianness::little);
  text.append(bytes, sizeof(Integer));
}

template <typename Integer> static Integer take(llvm::StringRef &text) {
  const Integer value = llvm::support::endian::read<Integer>(text.data(), llvm::endianness::little);
  text = text.drop_front(sizeof(Integer));
  return value;
}

static void pack(std::string &text, const TraceEvent &event) {
  put<uint64_t>(text, event.request);
  put<int64_t>(text, event.begin.time_since_epoch().count());
  put<int64_t>(text, event.end.time_since_epoch().count());
  for (uint32_t value : {event.rank, uint32_t(event.action.kind), event.action.stage, event.action.microbatch,
                         event.action.peer_stage})
    put<uint32_t>(text, value);
}

bool TraceSpool::unpack(llvm::StringRef chunk, llvm::function_ref<void(const TraceEvent &)> use) {
  if (chunk.size() % kRecordBytes != 0)
    return false;
  while (!chunk.empty()) {
    TraceEvent event;
    event.request = take<uint64_t>(chunk);
    event.begin = Time(Time::duration(take<int64_t>(chunk)));
    event.end = Time(Time::duration(take<int64_t>(chunk)));
    event.rank = take<uint32_t>(chunk);
    const uint32_t kind = take<uint32_t>(chunk);
    if (kind >= std::size(plan::wire::EnumValuesActionKind()))
      return false;
    event.action.kind = plan::ActionKind(kind);
    event.action.stage = take<uint32_t>(chunk);
    event.action.microbatch = take<uint32_t>(chunk);
    event.action.peer_stage = take<uint32_t>(chunk);
    use(event);
  }
  return true;
}

//===- The file -----------------------------------------------------------===//

/// Opens an unlinked file in the folder of `path`.
static Expected<int> openUnnamed(llvm::StringRef path) {
  int file = -1;
  Expected<std::string> temporary = plan::makeTemporary(path, [&](const char *name) {
    file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return file < 0 ? errno : 0;
  });
  if (!temporary)
    return temporary.takeError();
  plan::removeTemporary(*temporary);
  return file;
}

Expected<std::unique_ptr<TraceSpool>> TraceSpool::create(llvm::StringRef trace) {
  Expected<std::string> resolved = plan::resolveOutputPath(trace);
  if (resolved)
    if (Expected<int> file = openUnnamed(*resolved))
      return std::unique_ptr<TraceSpool>(new TraceSpool(*file, trace.str()));
    else
      llvm::consumeError(file.takeError());
  else
    llvm::consumeError(resolved.takeError());
  llvm::SmallString<256> elsewhere;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, elsewhere);
  llvm::sys::path::append(elsewhere, llvm::sys::path::filename(trace));
  Expected<int> file = openUnnamed(elsewhere);
  if (!file)
    return file.takeError();
  return std::unique_ptr<TraceSpool>(new TraceSpool(*file, elsewhere.str().str()));
}

TraceSpool::~TraceSpool() { close(file); }

Error TraceSpool::append(llvm::ArrayRef<TraceEvent> events) {
  std::string records;
  records.reserve(events.size() * kRecordBytes);
  for (const TraceEvent &event : events) {
    pack(records, event);
    first = std::min(first, event.begin);
  }
  for (llvm::StringRef left = records; !left.empty();) {
    const ssize_t written = write(file, left.data(), left.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return plan::cannotWrite(trace, errno);
    left = left.drop_front(size_t(written));
    size += uint64_t(written);
  }
  return Error::success();
}

Expected<std::string> TraceSpool::read(uint64_t offset) const {
  std::string chunk(std::min(kChunkBytes, size - std::min(offset, size)), '\0');
  for (size_t done = 0; done < chunk.size();) {
    const ssize_t count = pread(file, chunk.data() + done, chunk.size() - done, off_t(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return llvm::createStringError("cannot read what was traced for '" + trace +
                                     "': " + (count < 0 ? std::strerror(errno) : "the file is cut short"));
    done += size_t(count);
  }
  return chunk;
}

} // namespace cleave
