//===- Startup.cpp - Set-up of the process --------------------------------===//
#include "tools/cleave/process/Startup.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/process/StderrWriter.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorHandling.h"
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <new>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace cleave {

static std::terminate_handler previousHandler = nullptr;
/// True once `main` has begun: before it there are no temporary files, nor the code that removes them.
static std::atomic<bool> hasBegun{false};

/// Without destructors, and without allocation.
[[noreturn]] static void endWith(llvm::StringRef line) {
  if (hasBegun)
    plan::removeTemporaries();
  writeStderr(line);
  _exit(EXIT_FAILURE);
}

[[noreturn]] static void endWithoutMemory() {
  endWith("error: out of memory; free some, or raise the limit (ulimit -v)\n");
}

/// The text may come from a model or a plan, and have several lines.
[[noreturn]] static void endUncaught(const std::exception &exception) {
  endWith("error: an exception that nothing catches, which is a defect: " +
          plan::printable(llvm::StringRef(exception.what()).split('\n').first) + "\n");
}

/// Handler of uncaught exceptions: libtorch's, and those of threads that it starts.
[[noreturn]] static void endOfException() {
  try {
    if (std::exception_ptr exception = std::current_exception())
      std::rethrow_exception(exception);
  } catch (const std::bad_alloc &) {
    endWithoutMemory();
  } catch (const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      endWith(
          "error: cannot start a thread; raise the limits on processes and memory (ulimit -u, ulimit -v)\n");
    endUncaught(error);
  } catch (const std::exception &exception) {
    endUncaught(exception);
  } catch (...) {
  }
  previousHandler();
  std::abort();
}

static void watchTermination(int, char **, char **) { previousHandler = std::set_terminate(endOfException); }

// libtorch registers its operators before `main`, which takes memory. The executable's .preinit_array runs
// before the constructors of libraries.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeLibraries)(int, char **, char **) = watchTermination;

void prepareProcess() {
  hasBegun = true;
  // open returns the lowest free descriptor, which is that of the closed stream. Writes to standard output
  // then fail.
  for (auto [stream, mode] : {std::pair(STDIN_FILENO, O_RDONLY), std::pair(STDOUT_FILENO, O_RDONLY),
                              std::pair(STDERR_FILENO, O_WRONLY)})
    if (fcntl(stream, F_GETFD) < 0)
      (void)!open("/dev/null", mode);
  plan::redirectStdStreams();
  // Connections to a rank take descriptors, which must not run out.
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endWithoutMemory(); });
}

} // namespace cleave
