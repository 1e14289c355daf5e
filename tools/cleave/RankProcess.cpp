//===- RankProcess.cpp - `cleave run` as one of several processes ---------===//
#include "tools/cleave/RankProcess.h"
#include "codegen/plan/TemporaryPath.h"
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace cleave {

using llvm::Error;
using runtime::Session;

/// How long the main thread has to end by itself once the run has failed: it may be busy.
static constexpr std::chrono::seconds kGrace{2};

/// Tells of the failure, once.
static void announce(uint32_t rank, const std::string &message) {
  static std::once_flag told;
  std::call_once(told, [&] {
    const std::string line = "error: rank " + std::to_string(rank) + " stops: " + message + "\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
    // What a launcher then sends needs no message of its own.
    std::signal(SIGTERM, SIG_IGN);
  });
}

/// Without destructors, which would wait for threads.
[[noreturn]] static void end() {
  plan::removeTemporaries();
  _exit(EXIT_FAILURE);
}

Error runAsRank(const std::string &plan, runtime::SessionOptions options,
                llvm::function_ref<Error(Session &)> work) {
  const uint32_t rank = options.launch->rank;
  options.failed = [rank](const std::string &message) {
    announce(rank, message);
    std::thread([] {
      std::this_thread::sleep_for(kGrace);
      end();
    }).detach();
  };
  auto session = Session::open(plan, std::move(options));
  if (!session) {
    announce(rank, llvm::toString(session.takeError()));
    end();
  }
  if (Error error = work(**session)) {
    const std::string message = llvm::toString(std::move(error));
    announce(rank, (*session)->fail(message));
    end();
  }
  // Another process that is gone now may not have printed or written what it had to.
  if (Error error = (*session)->close()) {
    announce(rank, llvm::toString(std::move(error)));
    end();
  }
  return Error::success();
}

} // namespace cleave
