//===- Mesh.h - Devices and mesh from the options ---------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_MESH_H
#define CLEAVE_TOOLS_DRIVER_MESH_H

#include "tools/driver/Compile.h"

namespace cleave {

struct PipelineShape {
  /// Devices, and stages: as many, or twice as many where they are interleaved.
  uint32_t ranks = 1, stages = 1;
  /// The dimension that micro-batches split; empty where there is one.
  std::string batch;
};

/// Reconciles --devices, --mesh and --machine.
llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_MESH_H
