//===- RankProcess.cpp - A process of a run -------------------------------===//
#include "tools/cleave/run/RankProcess.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/Exceptions.h"
#include "tools/cleave/process/StderrWriter.h"
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace cleave {

/// How long the main thread has to end by itself after the run has failed: it may be busy.
static constexpr std::chrono::seconds kGrace{2};

/// Prints the failure, once.
static void announce(uint32_t rank, const std::string &message) {
  static std::once_flag told;
  std::call_once(told, [&] {
    writeStderr("error: rank " + std::to_string(rank) + " stops: " + plan::printable(message) + "\n");
    // A launcher then sends SIGTERM, which needs no message of its own.
    std::signal(SIGTERM, SIG_IGN);
  });
}

/// Without destructors, which would wait for threads.
[[noreturn]] static void end() {
  plan::removeTemporaries();
  _exit(EXIT_FAILURE);
}

void stopRank(uint32_t rank, const std::string &message) {
  announce(rank, message);
  end();
}

llvm::Error prefixWithRank(uint32_t rank, llvm::Error error) {
  return llvm::createStringError("rank " + std::to_string(rank) + ": " + llvm::toString(std::move(error)));
}

llvm::Error prefixWithRank(const runtime::Session &session, llvm::Error error) {
  return error && session.processes() > 1 ? prefixWithRank(session.process(), std::move(error))
                                          : std::move(error);
}

llvm::Error agreeOnOptions(runtime::Session &session, const std::string &options) {
  auto all = session.gather(options, 0);
  if (!all)
    return all.takeError();
  for (size_t process = 1; process < all->size(); ++process)
    if ((*all)[process] != all->front())
      return llvm::createStringError("rank %zu was given %s, rank 0 %s; give all ranks the same options",
                                     process, (*all)[process].c_str(), all->front().c_str());
  return session.barrier();
}

//===- What nobody catches ------------------------------------------------===//

static std::function<void(const std::string &)> endAll;
static std::terminate_handler usualEnd;

/// The first line of the exception in flight.
static std::string uncaught() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception &exception) {
    return llvm::StringRef(runtime::messageOf(exception)).split('\n').first.str();
  } catch (...) {
    return "an exception";
  }
}

UncaughtExceptionScope::UncaughtExceptionScope(uint32_t rank,
                                               std::function<std::string(const std::string &)> fail) {
  endAll = [=](const std::string &what) {
    stopRank(rank, fail("rank " + std::to_string(rank) + ": libtorch cannot go on: " + what));
  };
  usualEnd = std::set_terminate([] {
    if (std::current_exception())
      endAll(uncaught());
    usualEnd();
  });
}

UncaughtExceptionScope::~UncaughtExceptionScope() { std::set_terminate(usualEnd); }

std::function<void(const std::string &)> stopRankCallback(uint32_t rank) {
  return [rank](const std::string &message) {
    // Printing may block on a reader.
    bool mayGoOn = true;
    try {
      std::thread([] {
        std::this_thread::sleep_for(kGrace);
        end();
      }).detach();
    } catch (const std::system_error &) {
      // No thread can be started, which may be why the run has failed.
      mayGoOn = false;
    }
    announce(rank, message);
    if (!mayGoOn)
      end();
  };
}

} // namespace cleave
