//===- Import.h - TorchScript to IR -----------------------------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_IMPORT_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_IMPORT_H

#include "frontend/torchscript/ModelInputs.h"
#include "frontend/torchscript/WeightTable.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

struct TorchScriptFile;

/// A module with one function per signature, and the weights that its parameters name.
struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightTable weights;
};

/// Imports the model's `forward` once for the inputs of each signature, as a function of its name; all of
/// them share weights and states. Calls of submodules are inlined under their module paths, attributes are
/// resolved, branches on constants are decided, in-place operators are made functional, and attributes and
/// weights that are written become states. A function's arguments are the tensor leaves of the inputs
/// (attributes `cleave.name`, `cleave.role`), its results those of the outputs; `cleave.input_tree` and
/// `cleave.output_tree` hold the nesting (see Signature.h). Fails with diagnostics on `context`, located by
/// module path.
/// \param signatures  at least one, of different names.
mlir::FailureOr<ImportedModel> importTorchScript(const TorchScriptFile &file,
                                                 llvm::ArrayRef<ModelInputs> signatures,
                                                 mlir::MLIRContext *context);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_IMPORT_H
