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
  uint32_t stages = 1;
};

/// Reconciles --devices, --mesh and --machine.
llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_MESH_H
