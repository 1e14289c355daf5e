//===- Pipeline.h - The passes of a compilation -----------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_PIPELINE_H
#define CLEAVE_TOOLS_DRIVER_BASE_PIPELINE_H

#include "mlir/IR/BuiltinOps.h"
#include "tools/driver/base/CompileOptions.h"
#include "tools/driver/base/Mesh.h"

namespace cleave {

/// The passes up to the program of all tensor ranks, as texts: to types and sizes, to idioms and precision,
/// and, where there is something to split over, to what is split and to the split. Shapes that differ in
/// later ones have the earlier ones in common.
std::vector<std::string> shardingSteps(const CompileOptions &options, const PipelineShape &shape);
/// The memory of a tensor rank that they weigh; nothing where they do not.
std::optional<int64_t> shardingMemory(const PipelineShape &shape);
/// Those that cut it.
std::string cuttingPasses(const CompileOptions &options, const PipelineShape &shape);

/// Both, as `cleave-opt --pass-pipeline=` takes them.
std::string pipelineOf(const CompileOptions &options, const PipelineShape &shape);

/// Of a text of these.
unsigned countPasses(llvm::StringRef passes);

/// Fails where `folder` could not be made, or be written, or is in that of the plan, `output`.
llvm::Error checkIrFolder(llvm::StringRef folder, llvm::StringRef output);

/// Where the module goes after each pass (`03-fold-sizes.mlir`), with module paths.
struct IrFiles {
  /// May be empty: nowhere.
  std::string folder;
  /// Passes that were run before.
  unsigned done = 0;
};

/// Runs passes over the functions. `begins` is told the name of each. Diagnostics are the context's; the
/// error only says that a pass failed where they say why.
llvm::Error runPipeline(mlir::ModuleOp module, llvm::StringRef passes, const IrFiles &files,
                        llvm::function_ref<void(llvm::StringRef pass)> begins);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_PIPELINE_H
