//===- Verify.h - A plan against its original -------------------*- C++ -*-===//
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
  /// A safetensors file; empty: `inputsBeside` where `looksBeside`, else made up.
  std::string inputsFile;
  bool looksBeside = true;
  /// As CompileOptions::listedOperators.
  bool listedOperators = false;
  std::vector<std::string> devices, libraries;
  /// As runtime::SessionOptions has them.
  std::vector<std::string> allowedOperators;
  /// How long one run of the plan may take.
  uint64_t timeoutSeconds = 600;
  /// As SessionOptions::overdue.
  std::function<void(const std::string &)> overdue;
  /// Told what is being done; may be empty.
  Progress progress;
};

struct VerifyReport {
  struct Output {
    std::string name;
    std::vector<int64_t> shape;
    /// Largest |plan − original|, and that over |original|, or over the ordinary size of the tensor's
    /// elements where that is more.
    double maxAbsError = 0, maxRelError = 0;
    /// Of the element that is nearest to its limit, or furthest beyond: the absolute error, and the limit.
    double error = 0, allowed = 0;
    bool ok = true;
    /// Which call of the model, from 1, where it keeps state from call to call; else 0.
    uint32_t call = 0;
    /// Sizes of the named dimensions, where they are not the traced ones: `batch=3, seq=65`.
    std::string sizes;
    /// `output.0 at batch=3, call 2`.
    std::string describe() const;
  };
  std::vector<Output> outputs;
  /// Sizes at which the original itself raises, with what it says: nothing was compared there.
  std::vector<std::string> skipped;
  bool ok() const;
  double maxAbsError() const;
  double maxRelError() const;
};

/// `gpt2.pt` → `gpt2.inputs.safetensors`; empty where that is not there. Nor is it taken where it is a link: to
/// what, only whoever sent the model has said.
std::string inputsBeside(llvm::StringRef model);

/// Runs the original TorchScript file and the plan on the same inputs, and again at other sizes of the named
/// dimensions: 1, and such as are smaller and larger than the traced ones. A model that keeps state is called four times
/// each, with other inputs, beginning with the state that it was saved with. tools/driver/Comparison.h says
/// what may differ by how much: about 1e-5 for float32. An output that differs is no error: the report says
/// so. Fails where either cannot be run on the inputs, the plan cannot where the original can, or the plan is
/// of another model.
llvm::Expected<VerifyReport> verify(const VerifyOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_H
