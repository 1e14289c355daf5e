//===- Startup.h - What the program does before all else --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H

namespace cleave {

/// Has standard streams that are closed fail or be empty, rather than become the first files that the program
/// opens; has what libraries write to the streams of C++ come as lines of theirs on the standard error; has
/// want of memory end it with one line, wherever that is noticed.
void prepareProcess();

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_STARTUP_H
