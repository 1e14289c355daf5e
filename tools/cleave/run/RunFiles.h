//===- RunFiles.h - The files of `cleave run` -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H

#include "codegen/plan/AtomicFile.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace cleave {

/// What a run reads, and what it writes where that is not empty. `plan` is a folder, or a model's file that
/// is simulated.
struct RunFiles {
  std::string plan, inputs, outputs, trace;
};

/// Fails where a file could not be written, or would replace what is read: better before the run than after
/// it.
llvm::Error checkRunFiles(const RunFiles &files);

/// Writes all, each whole; none before all have room. `writeTrace`, which other processes may have a part in,
/// comes first: nobody waits for the outputs.
llvm::Error writeRunFiles(const RunFiles &files, llvm::ArrayRef<runtime::NamedTensor> outputs,
                          llvm::function_ref<llvm::Error(plan::AtomicFile &)> writeTrace);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H
