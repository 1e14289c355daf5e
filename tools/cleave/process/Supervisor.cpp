//===- Supervisor.cpp - Supervises work on untrusted files ----------------===//
#include "tools/cleave/process/Supervisor.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/operators/Operators.h"
#include "sandbox/Sandbox.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/process/StderrWriter.h"
#include "tools/cleave/text/ProgressBar.h"
#include "tools/driver/base/StopSource.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cleave {

using Clock = std::chrono::steady_clock;

static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
/// Period of memory checks: what a child can allocate in between is small against a machine's memory.
static constexpr timespec kTick = {0, 20'000'000};
/// Time that a forwarded signal leaves the child to remove its files.
static constexpr std::chrono::seconds kGrace{10};

uint64_t ProcessLimits::defaultMemoryBytes() {
  return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)) / 10 * 9;
}

//===- Signals ------------------------------------------------------------===//

static bool isIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// `SIGINT`; `signal 34` for a real-time signal, which has no name.
static std::string nameOf(int signal) {
  const char *name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

/// `error: run: stopped by SIGINT`.
static std::string describeSignal(llvm::StringRef command, int signal) {
  return ("error: " + command + ": stopped by " + nameOf(signal)).str();
}

/// Lines made in advance: the handler cannot allocate.
static char lines[std::size(kSignals)][64];

/// The stop source that the first SIGINT triggers instead of ending the process.
static StopSource *endedFirst = nullptr;

static void announceAndDie(int signal) {
  if (signal == SIGINT && endedFirst && endedFirst->requestStop())
    return;
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal)
      writeStderr(lines[i]);
  plan::removeTemporaries();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void announceSignals(llvm::StringRef command, StopSource *stop) {
  endedFirst = stop;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    std::strncpy(lines[i], (describeSignal(command, kSignals[i]) + "\n").c_str(), sizeof(lines[i]) - 1);
    if (!isIgnored(kSignals[i]))
      std::signal(kSignals[i], announceAndDie);
  }
}

//===- The child ----------------------------------------------------------===//

/// In the child: it dies with its parent, which alone gets a terminal's SIGINT; it gains no rights; and it is
/// the first process that the system kills when memory runs out. The process that makes its outputs removes
/// them.
static void confine(pid_t parent) {
  std::signal(SIGINT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    raise(SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  std::error_code error;
  llvm::raw_fd_ostream("/proc/self/oom_score_adj", error) << 1000;
}

/// In the child, while it has one thread: drops access that the work does not need.
static llvm::Error enterSandbox(const Confinement &confinement, plan::OutputBroker *broker) {
  sandbox::FileAccess allowed{confinement.files, confinement.folders, ""};
  if (broker) {
    broker->use();
    if (!confinement.outputs.plan.empty())
      if (llvm::Error error = broker->makePlanFolder().moveInto(allowed.writableFolder))
        return error;
  }
  if (confinement.unsandboxed)
    return llvm::Error::success();
  for (const std::string &library : confinement.libraries)
    if (llvm::Error error = runtime::allowRegistered([&]() -> llvm::Error {
          std::string message;
          if (llvm::sys::DynamicLibrary::LoadLibraryPermanently(library.c_str(), &message))
            return llvm::createStringError("--library " + library + ": cannot be loaded: " + message);
          return llvm::Error::success();
        }))
      return error;
  sandbox::enter(allowed);
  return llvm::Error::success();
}

/// Anonymous memory by /proc/PID/status; 0 when the process has ended.
static uint64_t bytesOf(pid_t process) {
  auto status = llvm::MemoryBuffer::getFileAsStream("/proc/" + llvm::Twine(process) + "/status");
  if (!status)
    return 0;
  uint64_t kilobytes = 0;
  for (llvm::StringRef key : {"\nRssAnon:", "\nRssShmem:", "\nVmSwap:", "\nHugetlbPages:"}) {
    uint64_t value = 0;
    if ((*status)->getBuffer().split(key).second.ltrim().consumeInteger(10, value) == false)
      kilobytes += value;
  }
  return kilobytes << 10;
}

namespace {
/// Waits for a child, and stops it if it exceeds its limits.
class Supervision {
public:
  Supervision(llvm::StringRef command, const Confinement &confinement, plan::OutputBroker *broker,
              pid_t child, const CrashNote *note)
      : command(command), file(confinement.file), limits(confinement.limits), drawsBar(confinement.drawsBar),
        stop(confinement.stop), broker(broker), child(child), note(note) {}
  /// Returns the exit status for this process. `watched`: the signals to wait for, which are blocked.
  int wait(const sigset_t &watched);

private:
  void handOn(int signal);
  void checkLimits();
  int conclude(int status);
  int fail(const llvm::Twine &message);
  /// Removes what the child has left: files, and a progress bar.
  void clear();
  /// Prints on a new line, even if the child did not end its last one.
  void print(const std::string &line) const;

  const llvm::StringRef command, file;
  const ProcessLimits limits;
  const bool drawsBar;
  StopSource *const stop;
  /// Null if there are no outputs.
  plan::OutputBroker *const broker;
  const pid_t child;
  /// Null if there was no memory for it.
  const CrashNote *const note;
  const Clock::time_point begun = Clock::now();
  /// Whether a SIGINT has tried to stop the search.
  bool hasAsked = false;
  /// The signal that was forwarded, and when.
  int handedOn = 0;
  Clock::time_point handedOnAt;
  /// Why the child was stopped; empty if it was not.
  std::string reason;
};
} // namespace

void Supervision::clear() {
  if (broker)
    broker->finish();
  if (drawsBar)
    ProgressBar::erase();
}

void Supervision::print(const std::string &line) const {
  writeStderr((note && note->isWithinLine ? "\n" : "") + line + "\n");
}

int Supervision::fail(const llvm::Twine &message) {
  clear();
  print(("error: " + command + ": " + plan::printable(message.str())).str());
  return EXIT_FAILURE;
}

void Supervision::checkLimits() {
  if (!reason.empty())
    return;
  if (handedOn && Clock::now() - handedOnAt > kGrace)
    kill(child, SIGKILL);
  if (limits.seconds && Clock::now() - begun > std::chrono::seconds(limits.seconds))
    reason =
        llvm::formatv("took longer than {0} s and was stopped; allow more with --time-limit", limits.seconds);
  else if (uint64_t bytes = limits.memoryBytes ? bytesOf(child) : 0; bytes > limits.memoryBytes)
    reason =
        llvm::formatv("took more than {0:f1} MB of memory and was stopped; allow more with --memory-limit",
                      limits.memoryBytes / 1e6);
  if (!reason.empty())
    kill(child, SIGKILL);
}

/// Dies of the same signal as the child, so that the parent of this process learns of it.
[[noreturn]] static void dieOf(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t unblocked;
  sigemptyset(&unblocked);
  sigaddset(&unblocked, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &unblocked, nullptr);
  _exit(128 + signal);
}

/// Text that the child has left in shared memory; bounded, since the child may have corrupted it.
template <size_t size> static llvm::StringRef textOf(const char (&text)[size]) {
  return llvm::StringRef(text, strnlen(text, size));
}

int Supervision::conclude(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  if (!reason.empty())
    return fail(file + ": " + reason);
  if (handedOn || llvm::is_contained(kSignals, signal)) {
    clear();
    print(describeSignal(command, handedOn ? handedOn : signal));
    dieOf(handedOn ? handedOn : signal);
  }
  // The reader of its output has gone: the file is not to blame.
  if (signal == SIGPIPE) {
    clear();
    dieOf(signal);
  }
  if (signal == SIGKILL)
    return fail(file +
                ": was killed, perhaps by the system for want of memory; free some, or give --memory-limit");
  if (note && (*note->where || *note->file))
    return fail(file + ": " + textOf(note->where) + describeCrash(signal, textOf(note->file)));
  return fail(file + ": reading it crashed (" + nameOf(signal) +
              "), as damaged and hostile files can make libtorch or MLIR do; save it again, and do not trust "
              "the file");
}

void Supervision::handOn(int signal) {
  // The search's result is then made into a plan, however long that takes. Only once, since the child can
  // also write to the shared memory.
  if (signal == SIGINT && stop && !std::exchange(hasAsked, true) && stop->requestStop())
    return;
  handedOn = signal;
  handedOnAt = Clock::now();
  kill(child, signal == SIGINT ? SIGTERM : signal);
}

int Supervision::wait(const sigset_t &watched) {
  while (true) {
    const int signal = sigtimedwait(&watched, nullptr, &kTick);
    int status;
    if (waitpid(child, &status, WNOHANG) == child)
      return conclude(status);
    if (signal > 0 && signal != SIGCHLD)
      handOn(signal);
    checkLimits();
  }
}

StopSource *makeSharedStop() {
  void *memory = mmap(nullptr, sizeof(StopSource), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) StopSource;
}

static int fail(llvm::StringRef command, llvm::Error error) {
  const std::string where = command.empty() ? "" : (command + ": ").str();
  plan::printLastLine("error: " + where + plan::printable(toString(std::move(error))));
  return EXIT_FAILURE;
}

int supervise(llvm::StringRef command, const Confinement &confinement, llvm::function_ref<int()> work) {
  sigset_t watched, before;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  // If the caller ignored SIGCHLD, the system would reap children unseen.
  std::signal(SIGCHLD, SIG_DFL);
  for (int signal : kSignals)
    if (!isIgnored(signal)) // nohup wants the work to go on.
      sigaddset(&watched, signal);
  CrashNote *note = makeSharedCrashNote();
  // Before the child exists, so that no signal is lost.
  sigprocmask(SIG_BLOCK, &watched, &before);
  std::unique_ptr<plan::OutputBroker> broker;
  if (!confinement.outputs.empty())
    if (llvm::Error error = plan::OutputBroker::create(confinement.outputs).moveInto(broker))
      return fail(command, std::move(error));
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    return fail(command, llvm::createStringError("cannot start a process: %s", std::strerror(errno)));
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    confine(parent);
    if (note)
      noteCrashes(*note);
    llvm::Error error = enterSandbox(confinement, broker.get());
    const int status = error ? fail("", std::move(error)) : work();
    llvm::outs().flush();
    std::fflush(stdout);
    // Without destructors, which would wait for the model's threads.
    std::quick_exit(status);
  }
  if (broker)
    if (llvm::Error error = broker->startProcess()) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return fail(command, std::move(error));
    }
  return Supervision(command, confinement, broker.get(), child, note).wait(watched);
}

} // namespace cleave
