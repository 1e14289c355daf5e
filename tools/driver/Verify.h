//===- Verify.h - Compares a plan with its model ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_H

#include "tools/driver/base/CompileOptions.h"
#include "tools/driver/verify/VerifyReport.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct VerifyOptions {
  std::string plan, model;
  /// Safetensors files, as CompileOptions::inputsFiles; a single one without a name is for `signature`. For
  /// signatures without a file: `inputsBeside` (verify/VerifyInputs.h) if `useInputsBesideModel`, else
  /// generated inputs.
  std::vector<std::string> inputsFiles;
  bool useInputsBesideModel = true;
  /// Compare also with what the module answered that was traced, which cleave-trace has written beside the
  /// model (docs/witnesses.md).
  bool useWitnesses = true;
  /// Name of the signature to verify; empty: all of them.
  std::string signature;
  /// The loss of a plan with gradients, as GradientOptions::loss.
  std::string loss;
  /// As GradientOptions::trainable: a weight that these train and the plan does not differs. nullopt: the
  /// weights of the plan.
  std::optional<std::vector<std::string>> trainable;
  /// The update that the plan should make; nullopt: what the plan says.
  std::optional<UpdateOptions> update;
  /// As CompileOptions::requireListedOperators.
  bool requireListedOperators = false;
  std::vector<std::string> devices, libraries;
  /// As runtime::SessionOptions has them.
  std::vector<std::string> allowedOperators;
  /// Timeout of one run of the plan.
  uint64_t timeoutSeconds = 600;
  /// As SessionOptions::onTimeout.
  std::function<void(const std::string &)> onTimeout;
  /// Reports progress; may be empty.
  Progress progress;
};

/// Runs the original TorchScript file and the plan on the same inputs, and again at other sizes of the named
/// dimensions: 1, smaller ones and larger ones. A model that keeps state is called four times each, with
/// different inputs, from its saved state. tools/driver/verify/Comparison.h defines the tolerances: about
/// 1e-5 for float32.
///
/// Of a plan that gives gradients, these are compared with those of libtorch's autograd. Of one that trains,
/// three steps are, with torch::optim: losses, gradient norms, gradients of the first step, weights.
/// tools/driver/verify/GradientTolerance.h defines the tolerances. Both are refused if the model draws
/// random numbers, as dropout does.
///
/// A plan that only infers is also compared with what the module answered that was traced, at the sizes and
/// values that cleave-trace has kept (VerifyReport::witnesses). Without such a file, a note says so.
///
/// A difference is not an error: the report tells. Fails if the original or the plan cannot be run on the
/// inputs, if the plan fails at other sizes where the original succeeds, or if the plan is of another model.
llvm::Expected<VerifyReport> verify(const VerifyOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_H
