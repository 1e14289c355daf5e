//===- ModelSource.h - The model that is compiled ---------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H
#define CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H

#include "codegen/plan/Checksum.h"
#include "frontend/torchscript/Import.h"
#include "tools/driver/base/CompileOptions.h"

namespace cleave {

/// Whether the file is IR as text, by its name: `model.mlir`. IR names weights and does not have them.
bool isIrText(llvm::StringRef path);

struct ModelSource {
  ImportedModel model;
  /// Of the file.
  plan::Digest fingerprint;
  /// The dimension that micro-batches split; empty where there is none, or one micro-batch.
  std::string batch;
  /// As TorchScriptFile has it; empty for IR.
  std::function<void(const void *begin, size_t bytes)> release;
};

/// Reads what the options name: TorchScript with its inputs, or IR, whose one function says what its inputs are.
llvm::Expected<ModelSource> readModel(const CompileOptions &options, mlir::MLIRContext &context);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_MODELSOURCE_H
