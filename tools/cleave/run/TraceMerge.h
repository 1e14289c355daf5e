//===- TraceMerge.h - Merges the traces of processes ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_TRACEMERGE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_TRACEMERGE_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/TraceFile.h"
#include "tools/cleave/run/TraceSpool.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// Merges the traces of all processes, chunk by chunk. Checks everything that processes send.
class TraceMerge {
public:
  using Sink = std::function<llvm::Error(llvm::StringRef)>;

  /// First message of a process: number of bytes that follow, begin time, and device names by rank.
  static std::string heading(llvm::ArrayRef<runtime::DeviceStatistics> devices, const TraceSpool &spool);

  /// `plan` must outlive the result. The trace is passed to `sink` in parts.
  TraceMerge(const plan::Plan &plan, Sink sink) : plan(plan), sink(std::move(sink)) {}
  /// \param headings  by process.
  /// \returns the number of chunks of the process with the longest trace; the others send empty chunks at the
  ///     end.
  llvm::Expected<uint64_t> begin(llvm::ArrayRef<std::string> headings);
  /// Parses the result of `begin`, as the merging process sends it to the others.
  static llvm::Expected<uint64_t> chunksOf(uint32_t process, llvm::StringRef text);
  /// Fails if `chunk` is not a trace of `process`, or does not match its heading, so that no process waits
  /// for data that is never sent.
  llvm::Error add(uint32_t process, llvm::StringRef chunk);
  llvm::Error finish();

private:
  bool isOf(uint32_t process, const runtime::TraceEvent &event) const;
  llvm::Error flush();

  const plan::Plan &plan;
  const Sink sink;
  /// By process: bytes still to come.
  std::vector<uint64_t> left;
  std::string text;
  llvm::raw_string_ostream out{text};
  std::optional<TraceWriter> writer;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRACEMERGE_H
