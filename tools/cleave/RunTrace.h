//===- RunTrace.h - What the ranks of a run did ---------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUNTRACE_H
#define CLEAVE_TOOLS_CLEAVE_RUNTRACE_H

#include "codegen/plan/Plan.h"
#include "runtime/Session.h"
#include "runtime/Trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave {

/// What one process has traced, as text that another one puts together.
std::string packTrace(llvm::ArrayRef<runtime::DeviceStatistics> devices,
                      llvm::ArrayRef<runtime::TraceEvent> events);

/// Fails where one of them, by rank, is none of its rank in this plan.
llvm::Error checkPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed);

/// The trace file of what all processes have packed.
std::string formatPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUNTRACE_H
