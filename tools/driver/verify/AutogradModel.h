//===- AutogradModel.h - The original under autograd ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_AUTOGRADMODEL_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_AUTOGRADMODEL_H

#include "tools/driver/verify/OriginalLoss.h"
#include "tools/driver/verify/OriginalModel.h"
#include "tools/driver/verify/VerifyInputs.h"
#include <map>

namespace cleave {

/// Runs the original and libtorch's autograd: the loss, and its gradients. Not for use in inference mode.
///
/// While it lives, attributes of the module are copies of the weights; attributes that share memory (tied
/// weights) are one tensor, so that their gradients are summed.
class AutogradModel {
public:
  /// \param original, signature  kept.
  AutogradModel(OriginalModel &original, const plan::Signature &signature, OriginalLoss loss);
  /// Puts the module's own tensors back.
  ~AutogradModel();
  AutogradModel(const AutogradModel &) = delete;
  AutogradModel &operator=(const AutogradModel &) = delete;

  /// Names of the parameters that `compile` trains with these patterns (CompileOptions.h, GradientOptions):
  /// those that a pattern matches; without patterns, those that require grad. Tied parameters are listed
  /// once, by their name in `known` if it has one, else by the first. Fails on a malformed pattern.
  llvm::Expected<std::vector<std::string>> trainedNames(llvm::ArrayRef<std::string> patterns,
                                                        llvm::ArrayRef<std::string> known) const;
  /// Chooses the weights whose gradients `run` gives, from the next `reset` on; other tensors require none.
  /// Fails on names that are no floating-point tensors of the module.
  llvm::Error setTrained(llvm::ArrayRef<std::string> names);

  enum class Precision { Traced, Float64 };
  /// Restores the saved weights and states, and replaces the trained weights in the module by new copies that
  /// require grad. In Float64 all floating-point tensors are replaced by copies in float64, and `run`
  /// computes in float64. Needed before the first `run`.
  void reset(Precision precision);
  /// The copies of the trained weights in the module, in the order of `setTrained`. An optimizer may change
  /// them in place.
  llvm::ArrayRef<at::Tensor> weights() const { return trainedWeights; }

  struct Result {
    std::vector<runtime::NamedTensor> outputs;
    at::Tensor loss;
    /// One for each of `weights`; undefined if the loss does not depend on it.
    std::vector<at::Tensor> gradients;
  };
  /// Fails if the original raises or its loss is not finite.
  llvm::Expected<Result> run(const Inputs &inputs) const;
  /// As OriginalModel.
  std::vector<runtime::NamedTensor> stateTensors() const { return original.stateTensors(); }
  /// True if the model draws random numbers and two runs on these inputs give different losses.
  llvm::Expected<bool> isRandom(const Inputs &inputs);
  bool hasAttachedLoss() const { return loss.isAttached(); }

private:
  /// An attribute, which is a tensor or a list of tensors.
  struct Attribute {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    size_t slot;
    std::string path;
    bool isParameter;
    c10::IValue value;
  };
  void findAttributes(const c10::intrusive_ptr<c10::ivalue::Object> &object, const std::string &path);
  void restore();
  llvm::Expected<Result> compute(const Inputs &inputs) const;

  OriginalModel &original;
  const plan::Signature &signature;
  const OriginalLoss loss;
  std::vector<Attribute> attributes;
  /// `storageKey` of each trained weight, as saved.
  std::vector<std::string> trained;
  /// The copies that `reset` made of them, in the same order: leaves of the autograd graph.
  std::vector<at::Tensor> trainedWeights;
  Precision precision = Precision::Traced;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_AUTOGRADMODEL_H
