//===- CrashReport.cpp - Reports of crashes -------------------------------===//
#include "tools/cleave/process/CrashReport.h"
#include "codegen/plan/files/InputFile.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/AlternateStack.h"
#include "runtime/executor/Activity.h"
#include "tools/cleave/process/StderrWriter.h"
#include "tools/cleave/text/ProgressBar.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace cleave {

static constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Begin of the message, made in advance: the handler cannot allocate.
static char beginning[64];
static CrashNote own;
/// The note of a process whose parent reports; null otherwise.
static CrashNote *shared = nullptr;
static std::atomic_flag hasCrashed = ATOMIC_FLAG_INIT;

CrashNote *makeSharedCrashNote() {
  void *memory = mmap(nullptr, sizeof(CrashNote), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) CrashNote;
}

static const char *nameOf(int signal) {
  switch (signal) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGILL:
    return "SIGILL";
  case SIGFPE:
    return "SIGFPE";
  default:
    return "SIGABRT";
  }
}

static constexpr char kOfFile[] =
    "' became shorter, or cannot be read any more, while it was in use; write a new file and rename it";
static constexpr char kOfPlan[] = ", as damaged and hostile files can make libtorch do; do not trust them";

std::string describeCrash(int signal, llvm::StringRef file) {
  const std::string what = std::string("crashed (") + nameOf(signal) + ")";
  return file.empty() ? what + kOfPlan : what + ": '" + file.str() + kOfFile;
}

/// `plan::printable` without allocation: `?` for control characters, as in a file name.
static void makePrintable(char *text) {
  for (; *text; ++text) {
    const bool isTwoBytes = uint8_t(*text) == 0xc2 && uint8_t(text[1]) >= 0x80 && uint8_t(text[1]) < 0xa0;
    if (uint8_t(*text) < ' ' || *text == 0x7f || isTwoBytes)
      *text = '?';
  }
}

/// `describeCrash`, async-signal-safe.
static void putCrash(int signal, const char *file) {
  char line[sizeof(CrashNote) + 512] = "";
  const char *parts[] = {beginning, own.where,          "crashed (", nameOf(signal),
                         ")",       *file ? ": '" : "", file,        *file ? kOfFile : kOfPlan};
  for (const char *part : parts)
    std::strncat(line, part, sizeof(line) - std::strlen(line) - 2);
  makePrintable(line);
  writeStderr(std::strcat(line, "\n"));
}

static void fill(CrashNote &note, int signal, const siginfo_t &facts) {
  // Leaves room for the separator.
  runtime::describeActivity(note.where, sizeof(note.where) - 2);
  if (*note.where)
    std::strcat(note.where, ": ");
  const char *file = signal == SIGBUS ? plan::mappedFileAt(facts.si_addr) : nullptr;
  if (file)
    std::strncpy(note.file, file, sizeof(note.file) - 1);
}

static void handle(int signal, siginfo_t *facts, void *) {
  // Another process sent the signal.
  if (facts->si_code <= 0 && facts->si_pid != getpid()) {
    std::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  // Other threads may crash for the same reason.
  while (hasCrashed.test_and_set())
    pause();
  fill(shared ? *shared : own, signal, *facts);
  if (!shared) {
    plan::removeTemporaries();
    putCrash(signal, own.file);
    _exit(EXIT_FAILURE);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void endWithError(const std::string &message) {
  ProgressBar::erase();
  plan::removeTemporaries();
  writeStderr("error: " + plan::printable(message) + "\n");
  // Without destructors, which would wait for running threads.
  _exit(EXIT_FAILURE);
}

static void install() {
  // The thread that opens files keeps its stack as long as the process lives.
  static const auto *stack = new runtime::AlternateStack;
  (void)stack;
  for (int signal : kCrashes) {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // A second crash, inside the handler, ends the process.
    sigfillset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

// Sanitizers report more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static constexpr bool isSanitized = true;
#else
static constexpr bool isSanitized = false;
#endif

void reportCrashes(llvm::StringRef command) {
  std::strncpy(beginning, ("error: " + command + ": ").str().c_str(), sizeof(beginning) - 1);
  if (!isSanitized)
    install();
}

void noteCrashes(CrashNote &note) {
  shared = &note;
  plan::shareLineState(note.isWithinLine);
  if (!isSanitized)
    install();
}

} // namespace cleave
