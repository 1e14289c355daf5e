//===- Verify.h - A plan against its original -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_H

#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cleave {

struct VerifyOptions {
  std::string plan, model;
  /// A safetensors file; empty: `<model without .pt>.inputs.safetensors` where it exists, else made up.
  std::string inputsFile;
  std::vector<std::string> devices, libraries;
  /// How long one run of the plan may take.
  uint64_t timeoutSeconds = 600;
  /// Told of each step when it begins; may be empty.
  std::function<void(const std::string &)> progress;
};

struct VerifyReport {
  struct Output {
    std::string name;
    std::vector<int64_t> shape;
    /// Largest |plan − original|, and that over the largest |original| of the tensor.
    double maxAbsError = 0, maxRelError = 0;
    /// What the absolute error may be: tolerance · max(1, largest |original|).
    double allowed = 0;
    bool ok = true;
    /// Sizes of the named dimensions, where they are not the traced ones: `batch=3, seq=65`.
    std::string sizes;
  };
  std::vector<Output> outputs;
  bool ok() const;
  double maxAbsError() const;
  double maxRelError() const;
};

/// Runs the original TorchScript file and the plan on the same inputs, and again at other sizes of the named
/// dimensions. Tolerances: float64 1e-9, float32 and complex64 1e-5, float16 1e-2, bfloat16 3e-2; integers
/// and bools must be equal. An output that differs is no error: the report says so. Fails where either cannot
/// be run, or the plan is of another model.
llvm::Expected<VerifyReport> verify(const VerifyOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_H
