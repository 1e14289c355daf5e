//===- Pipeline.h - The passes of a compilation -----------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_PIPELINE_H
#define CLEAVE_TOOLS_DRIVER_PIPELINE_H

#include "mlir/IR/BuiltinOps.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Mesh.h"

namespace cleave {

/// The pass pipeline as text, as `cleave-opt --pass-pipeline=` takes it.
std::string pipelineOf(const CompileOptions &options, const PipelineShape &shape);

/// Fails where `folder` could not be made, or be written.
llvm::Error checkIrFolder(llvm::StringRef folder);

/// Runs it. `emitIr`: directory for the module after each pass (`03-fold-sizes.mlir`), with module paths; may
/// be empty. `begins` is told the name of each pass. Diagnostics are the context's; the error is success() where they say
/// why a pass failed.
llvm::Error runPipeline(mlir::ModuleOp module, llvm::StringRef pipeline, llvm::StringRef emitIr,
                        llvm::function_ref<void(llvm::StringRef pass)> begins);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PIPELINE_H
