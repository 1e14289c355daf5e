//===- Verify.h - Compares a plan with its model ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_H

#include "tools/driver/base/Progress.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

struct VerifyOptions {
  std::string plan, model;
  /// Safetensors files, as CompileOptions::inputsFiles; a single one without a name is for `signature`. For
  /// signatures without a file: `inputsBeside` if `useInputsBesideModel`, else generated inputs.
  std::vector<std::string> inputsFiles;
  bool useInputsBesideModel = true;
  /// Name of the signature to verify; empty: all of them.
  std::string signature;
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

struct VerifyReport {
  struct Output {
    /// Empty if the plan has one signature.
    std::string signature;
    std::string name;
    std::vector<int64_t> shape;
    /// Largest |plan − original|, and that relative to |original| or to the typical magnitude of the
    /// tensor's elements, whichever is larger.
    double maxAbsError = 0, maxRelError = 0;
    /// Absolute error and limit of the element that exceeds its limit most, or is nearest to it.
    double error = 0, allowed = 0;
    bool ok = true;
    /// Number of the model call, from 1, if the model keeps state from call to call; else 0.
    uint32_t call = 0;
    /// Sizes of the dynamic dimensions, if they are not the traced ones: `batch=3, seq=65`.
    std::string sizes;
    /// `decode: output.0 at batch=3, call 2`.
    std::string describe() const;
  };
  std::vector<Output> outputs;
  /// Sizes at which the original itself raises, with its message: nothing was compared there.
  std::vector<std::string> skipped;
  bool ok() const;
  double maxAbsError() const;
  double maxRelError() const;
};

/// `gpt2.pt` → `gpt2.inputs.safetensors`; empty if it does not exist, or is a link, whose target is not to be
/// trusted.
std::string inputsBeside(llvm::StringRef model);

/// Runs the original TorchScript file and the plan on the same inputs, and again at other sizes of the named
/// dimensions: 1, smaller ones and larger ones. A model that keeps state is called four times each, with
/// different inputs, from its saved state. tools/driver/Comparison.h defines the tolerances: about 1e-5 for
/// float32. A difference is not an error: the report tells. Fails if the original or the plan cannot be run
/// on the inputs, if the plan fails at other sizes where the original succeeds, or if the plan is of another
/// model.
llvm::Expected<VerifyReport> verify(const VerifyOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_H
