//===- OriginalModel.h - The TorchScript module, run as it is ---*- C++ -*-===//
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

/// Calls the original's forward with the leaves of a signature's inputs, nested as its tree says, and takes
/// its result apart into the leaves of the outputs.
class OriginalModel {
public:
  OriginalModel(const TorchScriptFile &file, const plan::Signature &signature);
  /// Notes what the plan's states are, for `resetState`. Fails on states that are no attributes of the model.
  llvm::Error findStates(const plan::Plan &plan);
  /// Makes them what they were then.
  void resetState() const;
  /// Fails where the module raises, or takes other arguments than the signature's tree gives.
  llvm::Expected<std::vector<at::Tensor>> run(llvm::ArrayRef<at::Tensor> inputs) const;

private:
  struct State {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::string name;
    /// The attribute's value, and a copy: a module may write it in place.
    c10::IValue value, copy;
  };

  torch::jit::Module module;
  std::vector<State> states;
  const plan::Signature &signature;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_ORIGINALMODEL_H
