//===- RunFiles.h - Files of `cleave run` -----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H

#include "codegen/plan/files/AtomicFile.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace cleave {

/// Files that a run reads, and those that it writes; an empty name: none. `plan` is a folder, or a model file
/// that is simulated.
struct RunFiles {
  std::string plan, inputs, outputs, trace;
  /// The option that names `inputs`, for messages.
  std::string inputsOption = "--inputs";
};

/// True if both name the same file, which may not exist yet.
bool isSameFile(const std::string &a, const std::string &b);

/// Fails if `file`, which `option` names, could not be written, or would replace a file that is read.
llvm::Error checkWrittenFile(llvm::StringRef option, const std::string &file, const RunFiles &files);

/// Fails if a file could not be written, or would replace a file that is read. Called before the run.
llvm::Error checkRunFiles(const RunFiles &files);

/// Writes all files, each atomically, and commits none before all are written. `writeTrace`, a collective
/// call of several processes, comes first: no process waits for the outputs.
llvm::Error writeRunFiles(const RunFiles &files, llvm::ArrayRef<runtime::NamedTensor> outputs,
                          llvm::function_ref<llvm::Error(plan::AtomicFile &)> writeTrace);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNFILES_H
