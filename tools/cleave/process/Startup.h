//===- Startup.h - Set-up of the process ------------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H

namespace cleave {

/// Prepares the process. Closed standard streams are opened (empty, or failing on write), so that no other
/// file gets their descriptors. Output of libraries to C++ streams appears as separate lines on stderr.
/// Running out of memory anywhere ends the process with one line.
void prepareProcess();

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H
