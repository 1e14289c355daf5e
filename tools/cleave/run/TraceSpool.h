//===- TraceSpool.h - Trace events on disk ----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_TRACESPOOL_H
#define CLEAVE_TOOLS_CLEAVE_RUN_TRACESPOOL_H

#include "runtime/base/Trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>

namespace cleave {

/// Stores trace events on disk, so that a long run takes no memory for them: records of one size in an
/// unlinked file, which disappears with the process.
class TraceSpool {
public:
  /// \param trace  path of the trace. The spool is in the same folder, or in the system's temporary folder if
  ///     that is not writable, as on another host.
  static llvm::Expected<std::unique_ptr<TraceSpool>> create(llvm::StringRef trace);
  TraceSpool(const TraceSpool &) = delete;
  TraceSpool &operator=(const TraceSpool &) = delete;
  ~TraceSpool();

  llvm::Error append(llvm::ArrayRef<runtime::TraceEvent> events);

  /// Begin of the first action; the clock's maximum if there is none.
  runtime::TraceEvent::Clock::time_point firstActionBegin() const { return first; }
  uint64_t bytes() const { return size; }
  /// At most `kChunkBytes` of whole records, from byte `offset` on; empty at the end.
  llvm::Expected<std::string> read(uint64_t offset) const;
  static const uint64_t kChunkBytes;

  /// Parses a chunk that `read` returned in any process; false if it is malformed.
  static bool unpack(llvm::StringRef chunk, llvm::function_ref<void(const runtime::TraceEvent &)> take);

private:
  TraceSpool(int file, std::string trace) : file(file), trace(std::move(trace)) {}
  const int file;
  /// For messages.
  const std::string trace;
  uint64_t size = 0;
  runtime::TraceEvent::Clock::time_point first = runtime::TraceEvent::Clock::time_point::max();
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRACESPOOL_H
