//===- OriginalLoss.h - The loss of the original, by libtorch ---*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALLOSS_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALLOSS_H

#include "codegen/plan/Plan.h"
#include "ir/autograd/AttachLoss.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace cleave {

/// The loss that a plan was compiled with, computed from the original's outputs by the losses of libtorch. It
/// shares the text's syntax with the compiler (`parseLoss`), and nothing else.
class OriginalLoss {
public:
  /// \param text  as GradientOptions::loss: `cross_entropy(logits, labels)`, the name of an output or the end
  /// of it behind a dot; empty: the only output, or else `loss`. Fails if it is none of these.
  static llvm::Expected<OriginalLoss> parse(llvm::StringRef text);

  /// The loss, one number. `outputs` are the original's by name, `inputs` the leaves of the signature. Fails
  /// on names that are not there and on shapes that the loss does not take. May throw c10::Error.
  llvm::Expected<at::Tensor> compute(llvm::ArrayRef<runtime::NamedTensor> outputs,
                                     const plan::Signature &signature,
                                     llvm::ArrayRef<at::Tensor> inputs) const;
  /// False: the loss is an output of the model.
  bool isAttached() const { return call.has_value(); }

private:
  std::optional<LossCall> call;
  std::string output;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_ORIGINALLOSS_H
