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

  /// Names of the parameters that `compile` trains with these patterns (CompileOptions.h, GradientOptions),
  /// tied ones once: by the name in `known`, if one of theirs is there.
  std::vector<std::string> trainedBy(llvm::ArrayRef<std::string> patterns,
                                     llvm::ArrayRef<std::string> known) const;
  /// The weights whose gradients `run` gives; other tensors require none. Fails on names that are no
  /// floating-point tensors of the module.
  llvm::Error setTrained(llvm::ArrayRef<std::string> names);

  enum class Precision { Traced, Float64 };
  /// Begins anew, with the saved weights and states.
  void begin(Precision precision);
  /// The weights of `setTrained`, as they are now; tensors that require grad.
  llvm::ArrayRef<at::Tensor> weights() const { return leaves; }

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
  /// Of each of the trained weights, in their order: which tensor of the module it is.
  std::vector<std::string> trained;
  std::vector<at::Tensor> leaves;
  Precision precision = Precision::Traced;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_AUTOGRADMODEL_H
