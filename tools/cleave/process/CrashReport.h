//===- CrashReport.h - What is said of a crash ------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H

#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <string>

namespace cleave {

/// What a process that crashed, or was killed, has left for its parent, in memory that both share.
struct CrashNote {
  /// `rank 0 (stage 1): transformer.h.3.attn: aten::addmm: `, or empty.
  char where[2048] = {};
  /// The mapped file that could not be read; or empty.
  char file[4096] = {};
  /// Whether a line on the standard error has not been ended (plan::noteLines).
  std::atomic<bool> isWithinLine = false;
};

/// Null where there is no memory for it. Lives as long as the process.
CrashNote *makeSharedCrashNote();

/// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT that the process causes itself end it with one
/// line on the standard error and status 1: `error: run: rank 0 (stage 1): h.3: aten::addmm: crashed
/// (SIGSEGV), …`. What is unfinished is removed.
void reportCrashes(llvm::StringRef command);

/// From now on the process dies of them with that noted, for its parent to say.
void noteCrashes(CrashNote &note);

/// `crashed (SIGBUS): 'rank-000.safetensors' became shorter, or cannot be read any more; …`.
std::string describeCrash(int signal, llvm::StringRef file);

/// Ends the process as an error of that message would, without regard to what runs in it: for
/// SessionOptions::overdue and CompileOptions::endUnparsed.
void endWithError(const std::string &message);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_CRASHREPORT_H
