//===- RankProcess.h - A process of a run -----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H

#include "runtime/session/Session.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace cleave {

/// Prints on stderr, the first time, that this process stops, and exits with status 1, whatever its threads
/// do.
[[noreturn]] void stopRank(uint32_t rank, const std::string &message);

/// Adds the rank to an error that all processes will report: `rank 1: cannot read …`.
llvm::Error prefixWithRank(uint32_t rank, llvm::Error error);

/// The same, if the session has several processes; else `error` as it is.
llvm::Error prefixWithRank(const runtime::Session &session, llvm::Error error);

/// Fails unless all processes were given the same `options`, in the words of the command line. A collective
/// call, which returns when all have made it.
llvm::Error agreeOnOptions(runtime::Session &session, const std::string &options);

/// Callback for failures of other processes: prints at once, and ends this process a little later.
std::function<void(const std::string &)> stopRankCallback(uint32_t rank);

/// While it lives, an exception that a libtorch thread throws and nothing catches ends this process as other
/// failures do. Gloo throws such exceptions for malformed messages.
class UncaughtExceptionScope {
public:
  /// \param fail  fails all processes with a message, and returns the one with which they end.
  UncaughtExceptionScope(uint32_t rank, std::function<std::string(const std::string &)> fail);
  ~UncaughtExceptionScope();
  UncaughtExceptionScope(const UncaughtExceptionScope &) = delete;
};

/// Opens a runtime::Session or runtime::TimingProcess, and runs `work` with it. A failure, here or in another
/// process, ends this process with one message and status 1.
/// \param open  takes the callback for failures of other processes.
template <typename Shared>
void runAsRank(
    uint32_t rank,
    llvm::function_ref<llvm::Expected<std::unique_ptr<Shared>>(std::function<void(const std::string &)>)>
        open,
    llvm::function_ref<llvm::Error(Shared &)> work) {
  // Null while it is being opened.
  std::atomic<Shared *> opened{nullptr};
  UncaughtExceptionScope uncaught(rank, [&](const std::string &message) {
    Shared *const others = opened;
    return others ? others->fail(message) : message;
  });
  llvm::Expected<std::unique_ptr<Shared>> shared = open(stopRankCallback(rank));
  if (!shared)
    stopRank(rank, llvm::toString(shared.takeError()));
  opened = shared->get();
  if (llvm::Error error = work(**shared))
    stopRank(rank, (*shared)->fail(llvm::toString(std::move(error))));
  // Another process that is gone now may not have printed or written its results.
  if (llvm::Error error = (*shared)->close())
    stopRank(rank, (*shared)->fail(llvm::toString(std::move(error))));
}

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H
