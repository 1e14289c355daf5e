//===- ModelSource.h - The input model --------------------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H
#define CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H

#include "codegen/plan/files/Checksum.h"
#include "frontend/torchscript/Import.h"
#include "frontend/torchscript/ModelInputs.h"
#include "tools/driver/base/CompileOptions.h"

namespace cleave {

/// True for IR as text, by the file's name: `model.mlir`. IR names weights but does not contain them.
bool isIrText(llvm::StringRef path);

struct ModelSource {
  ImportedModel model;
  /// Checksum of the file.
  plan::Digest fingerprint;
  /// The module's own `training`; true for IR.
  bool isInTrainingMode = true;
  /// As in TorchScriptFile; empty for IR.
  std::string serializationId;
  /// The inputs of each signature; empty for IR.
  std::vector<ModelInputs> inputs;
  /// Name of the batch dimension; empty if there is none, or one micro-batch.
  std::string batch;
  /// As in TorchScriptFile; empty for IR.
  std::function<void(const void *begin, size_t bytes)> release;
};

/// Reads the model that the options name: TorchScript with its inputs, or IR, whose only function describes
/// its inputs.
llvm::Expected<ModelSource> readModel(const CompileOptions &options, mlir::MLIRContext &context);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H
