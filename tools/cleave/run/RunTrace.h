//===- RunTrace.h - Trace of a run ------------------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H

#include "codegen/plan/files/AtomicFile.h"
#include "runtime/session/Session.h"
#include "tools/cleave/run/TraceSpool.h"

namespace cleave {

/// Sends the traces of all processes, chunk by chunk, to the process that has the outputs, which writes them.
/// A collective call.
/// \param file  the trace; null in the other processes.
llvm::Error writeRunTrace(runtime::Session &session, const TraceSpool &spool, plan::AtomicFile *file);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H
