//===- MachineFile.h - Machines from JSON -----------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINEFILE_H
#define CLEAVE_PARTITIONER_MACHINEFILE_H

#include "partitioner/Machine.h"

namespace cleave {

inline constexpr uint32_t kMostDevices = 1024;

/// Reads a machine file, whose format Machine::load describes. The error names the key that is at fault.
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINEFILE_H
