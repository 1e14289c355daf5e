//===- TraceMerge.h - One trace of what all processes have traced -*- C++ -*-===//
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

/// Puts the traces of all processes together, chunk by chunk. What processes give is checked: nothing that
/// they say is believed.
class TraceMerge {
public:
  using Sink = std::function<llvm::Error(llvm::StringRef)>;

  /// What a process gives first: how much follows, when it begins, and the names of its devices by rank.
  static std::string heading(llvm::ArrayRef<runtime::DeviceStatistics> devices, const TraceSpool &spool);

  /// `plan` outlives the result, which gives the trace to `sink` in parts.
  TraceMerge(const plan::Plan &plan, Sink sink) : plan(plan), sink(std::move(sink)) {}
  /// \param headings  by process.
  /// \returns the chunks of the process that recorded most; the others send empty ones in the end.
  llvm::Expected<uint64_t> begin(llvm::ArrayRef<std::string> headings);
  /// What `begin` has returned in the process that merges, as another one hears of it.
  static llvm::Expected<uint64_t> chunksOf(uint32_t process, llvm::StringRef text);
  /// Fails where `chunk` is none of the trace of `process`, or has not what the heading told of: nobody goes
  /// on for what has not been sent.
  llvm::Error add(uint32_t process, llvm::StringRef chunk);
  llvm::Error finish();

private:
  bool isOf(uint32_t process, const runtime::TraceEvent &event) const;
  llvm::Error flush();

  const plan::Plan &plan;
  const Sink sink;
  /// Bytes that each process has still to send.
  std::vector<uint64_t> left;
  std::string text;
  llvm::raw_string_ostream out{text};
  std::optional<TraceWriter> writer;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRACEMERGE_H
