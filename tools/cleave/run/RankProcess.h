//===- RankProcess.h - A command as one of several processes ---*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace cleave {

/// Says on the standard error that this process stops, the first time, and ends it with status 1, whatever
/// its threads do.
[[noreturn]] void stopRank(uint32_t rank, const std::string &message);

/// What fails in one process, for all of them to say: `rank 1: cannot read …`.
llvm::Error ofRank(uint32_t rank, llvm::Error error);

/// For what hears that another process has failed: says so at once, and ends this process a little later.
std::function<void(const std::string &)> stopsRank(uint32_t rank);

/// While it lives: what a thread of libtorch's throws and nobody catches, as Gloo does of messages that are
/// none, ends this process as other failures do.
class UncaughtScope {
public:
  /// \param fail  has all processes fail with a message, and gives the one that they fail with.
  UncaughtScope(uint32_t rank, std::function<std::string(const std::string &)> fail);
  ~UncaughtScope();
  UncaughtScope(const UncaughtScope &) = delete;
};

/// Opens what this process does together with others, a runtime::Session or runtime::TimingProcess, and does
/// `work` with it. A failure, here or in another process, ends this one with one message and status 1.
/// \param open  is given what to call where another process fails.
template <typename Shared>
void runAsRank(
    uint32_t rank,
    llvm::function_ref<llvm::Expected<std::unique_ptr<Shared>>(std::function<void(const std::string &)>)>
        open,
    llvm::function_ref<llvm::Error(Shared &)> work) {
  // Null while it is being opened.
  std::atomic<Shared *> opened{nullptr};
  UncaughtScope uncaught(rank, [&](const std::string &message) {
    Shared *const others = opened;
    return others ? others->fail(message) : message;
  });
  llvm::Expected<std::unique_ptr<Shared>> shared = open(stopsRank(rank));
  if (!shared)
    stopRank(rank, llvm::toString(shared.takeError()));
  opened = shared->get();
  if (llvm::Error error = work(**shared))
    stopRank(rank, (*shared)->fail(llvm::toString(std::move(error))));
  // Another process that is gone now may not have printed or written what it had to.
  if (llvm::Error error = (*shared)->close())
    stopRank(rank, (*shared)->fail(llvm::toString(std::move(error))));
}

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RANKPROCESS_H
