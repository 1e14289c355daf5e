//===- CrashReport.h - Reports of crashes -----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H

#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <string>

namespace cleave {

/// What a crashed or killed process has left for its parent, in shared memory.
struct CrashNote {
  /// `rank 0 (stage 1): transformer.h.3.attn: aten::addmm: `, or empty.
  char where[2048] = {};
  /// The mapped file that could not be read, or empty.
  char file[4096] = {};
  /// True while a line on stderr is incomplete (plan::shareLineState).
  std::atomic<bool> isWithinLine = false;
};

/// Allocates a note in shared memory that lives as long as the process. Null if there is no memory for it.
CrashNote *makeSharedCrashNote();

/// Installs handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT. If this process causes such a signal, it
/// removes unfinished files and exits with status 1 and one line on stderr: `error: run: rank 0 (stage 1):
/// h.3: aten::addmm: crashed (SIGSEGV), …`.
void reportCrashes(llvm::StringRef command);

/// Installs handlers that write `note`, for the parent to report, and let the signal kill the process.
void noteCrashes(CrashNote &note);

/// `crashed (SIGBUS): 'rank-000.safetensors' became shorter, or cannot be read any more; …`.
std::string describeCrash(int signal, llvm::StringRef file);

/// Prints the message as an error and exits, whatever other threads run. For SessionOptions::onTimeout and
/// CompileOptions::onParseError.
void endWithError(const std::string &message);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H
