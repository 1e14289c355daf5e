//===- OriginalModel.h - Runs the TorchScript module ------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALMODEL_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALMODEL_H

#include "codegen/plan/Plan.h"
#include "frontend/archive/TorchScriptFile.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// Runs the original module's forward: nests the leaves of a signature's inputs into its arguments, and
/// flattens its result into the leaves of the outputs.
class OriginalModel {
public:
  /// \param inputTree  of the signature; kept.
  OriginalModel(const TorchScriptFile &file, const plan::Tree &inputTree);
  /// Records the initial values of the states with these names, for the methods below. Fails on states that
  /// are not attributes of the model.
  llvm::Error findStates(llvm::ArrayRef<std::string> names);
  /// Restores the values that findStates recorded.
  void resetState() const;
  /// Copies of the states that are tensors, as the last run has left them.
  std::vector<runtime::NamedTensor> stateTensors() const;
  /// Detaches the states from the autograd graph of the last run.
  void detachState() const;
  /// The leaves by the names that the plan gives them: `output.logits`. Fails if the module raises, or takes
  /// other arguments than the signature.
  llvm::Expected<std::vector<runtime::NamedTensor>> run(llvm::ArrayRef<at::Tensor> inputs) const;

  /// Makes `run` interpret `program`, a variant of the module's forward whose first input is the module;
  /// null: the module's own.
  void setProgram(std::shared_ptr<torch::jit::Graph> program) { this->program = std::move(program); }
  const torch::jit::Module &original() const { return module; }

private:
  struct State {
    std::string name;
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::string attribute;
    /// The attribute's value, and a copy: a module may write to it in place.
    c10::IValue value, copy;
  };
  c10::IValue interpret(std::vector<c10::IValue> stack) const;

  torch::jit::Module module;
  std::vector<State> states;
  const plan::Tree &inputTree;
  std::shared_ptr<torch::jit::Graph> program;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALMODEL_H
