//===- OriginalModel.h - Runs the TorchScript module ------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_ORIGINALMODEL_H
#define CLEAVE_TOOLS_DRIVER_ORIGINALMODEL_H

#include "codegen/plan/Plan.h"
#include "frontend/archive/TorchScriptFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// Runs the original module's forward: nests the leaves of a signature's inputs into its arguments, and
/// flattens its result into the leaves of the outputs.
class OriginalModel {
public:
  OriginalModel(const TorchScriptFile &file, const plan::Signature &signature);
  /// Records the initial values of the plan's states, for `resetState`. Fails on states that are not
  /// attributes of the model.
  llvm::Error findStates(const plan::Plan &plan);
  /// Restores these values.
  void resetState() const;
  /// Fails if the module raises, or takes other arguments than the signature.
  llvm::Expected<std::vector<at::Tensor>> run(llvm::ArrayRef<at::Tensor> inputs) const;

private:
  struct State {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::string name;
    /// The attribute's value, and a copy: a module may write to it in place.
    c10::IValue value, copy;
  };

  torch::jit::Module module;
  std::vector<State> states;
  const plan::Signature &signature;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_ORIGINALMODEL_H
