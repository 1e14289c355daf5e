//===- PassPipeline.h - Pass pipelines of a compilation ---------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_PASSPIPELINE_H
#define CLEAVE_TOOLS_DRIVER_BASE_PASSPIPELINE_H

#include "mlir/IR/BuiltinOps.h"
#include "tools/driver/base/CompileOptions.h"
#include "tools/driver/base/Mesh.h"

namespace cleave {

/// The pass pipelines, in order, that make the program shared by all tensor-parallel ranks: types and sizes;
/// idioms and precision; then, if there is more than one rank, sharding and partitioning. PipelineShapes that
/// differ only in later passes share the earlier ones.
std::vector<std::string> shardingSteps(const CompileOptions &options, const PipelineShape &shape);
/// Memory of a tensor-parallel rank that sharding must respect; nothing if it ignores memory.
std::optional<int64_t> shardingMemory(const PipelineShape &shape);
/// The passes that cut the program into stages.
std::string cuttingPasses(const CompileOptions &options, const PipelineShape &shape);

/// The whole pipeline, as `cleave-opt --pass-pipeline=` takes it.
std::string passPipelineOf(const CompileOptions &options, const PipelineShape &shape);

/// Number of passes in a pipeline text.
unsigned countPasses(llvm::StringRef passes);

/// Fails if `folder` could not be made or written, or is inside the plan's folder, `output`.
llvm::Error checkIrFolder(llvm::StringRef folder, llvm::StringRef output);

/// Where to write the module after each pass (`03-fold-sizes.mlir`), with its locations (module paths).
struct IrFiles {
  /// Empty: nowhere.
  std::string folder;
  /// Number of passes that ran before.
  unsigned done = 0;
};

/// Runs passes over the functions. `begins` gets the name of each pass when it starts. Diagnostics go to the
/// context; the error only says which pass failed.
llvm::Error runPassPipeline(mlir::ModuleOp module, llvm::StringRef passes, const IrFiles &files,
                            llvm::function_ref<void(llvm::StringRef pass)> begins);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_PASSPIPELINE_H
