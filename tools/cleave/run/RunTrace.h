//===- RunTrace.h - The trace of all processes of a run ---------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H

#include "codegen/plan/AtomicFile.h"
#include "runtime/session/Session.h"
#include "tools/cleave/run/TraceSpool.h"

namespace cleave {

/// Has all processes send what they have traced, chunk by chunk, to the one that has the outputs, which
/// writes it. A call that all of them make.
/// \param file  the trace; null in the others.
llvm::Error writeRunTrace(runtime::Session &session, const TraceSpool &spool, plan::AtomicFile *file);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNTRACE_H
