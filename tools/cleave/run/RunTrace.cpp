//===- RunTrace.cpp - Trace of a run --------------------------------------===//
#include "tools/cleave/run/RunTrace.h"
#include "tools/cleave/run/TraceMerge.h"
#include "llvm/ADT/StringExtras.h"
#include <optional>
#include <vector>

namespace cleave {

using llvm::Error;
using llvm::Expected;

Error writeRunTrace(runtime::Session &session, const TraceSpool &spool, plan::AtomicFile *file) {
  const uint32_t to = session.outputProcess();
  auto headings = session.gather(TraceMerge::heading(session.statistics(), spool), to);
  if (!headings)
    return headings.takeError();
  std::optional<TraceMerge> merge;
  uint64_t chunks = 0;
  if (file) {
    merge.emplace(session.plan(),
                  [file](llvm::StringRef text) { return file->write(llvm::arrayRefFromStringRef(text)); });
    if (Error error = merge->begin(*headings).moveInto(chunks))
      return error;
  }
  Expected<std::string> shared = session.broadcast(std::to_string(chunks), to);
  if (!shared)
    return shared.takeError();
  if (Error error = TraceMerge::chunksOf(to, *shared).moveInto(chunks))
    return error;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    auto own = spool.read(chunk * TraceSpool::kChunkBytes);
    if (!own)
      return own.takeError();
    auto all = session.gather(*own, to, TraceSpool::kChunkBytes);
    if (!all)
      return all.takeError();
    for (size_t process = 0; merge && process < all->size(); ++process)
      if (Error error = merge->add(process, (*all)[process]))
        return error;
  }
  return merge ? merge->finish() : Error::success();
}

} // namespace cleave
