//===- TraceFile.h - What ranks did, for trace viewers ----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TRACEFILE_H
#define CLEAVE_TOOLS_CLEAVE_TRACEFILE_H

#include "codegen/plan/Plan.h"
#include "partitioner/Simulator.h"
#include "runtime/Session.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace cleave {

/// The events in Chrome's trace format, which Perfetto opens: a row a device, an entry an action; and what
/// each device holds over time, where that is known.
std::string formatTrace(const plan::Plan &plan, llvm::ArrayRef<runtime::DeviceStatistics> devices,
                        llvm::ArrayRef<runtime::TraceEvent> events,
                        llvm::ArrayRef<std::vector<MemoryStep>> memory = {});

/// What one process has traced, as text that another one puts together.
std::string packTrace(llvm::ArrayRef<runtime::DeviceStatistics> devices,
                      llvm::ArrayRef<runtime::TraceEvent> events);
/// The same as `formatTrace` of what all processes have packed.
std::string formatPackedTraces(const plan::Plan &plan, llvm::ArrayRef<std::string> packed);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TRACEFILE_H
