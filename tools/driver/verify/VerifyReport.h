//===- VerifyReport.h - What a verification has found -----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYREPORT_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYREPORT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct VerifyReport {
  /// A tensor of the plan beside that of the original, or of the module that the original is a trace of.
  struct Compared {
    /// Empty if the plan has one signature.
    std::string signature;
    /// Of an output, of the weight that a gradient belongs to, or of a trained weight.
    std::string name;
    std::vector<int64_t> shape;
    /// Largest |plan − original|, and that relative to |original| or to the typical magnitude of the
    /// tensor's elements, whichever is larger.
    double maxAbsError = 0, maxRelError = 0;
    /// Absolute error and limit: of the element that exceeds its limit most, or is nearest to it; of the
    /// largest error where one limit holds for the whole tensor (gradients).
    double error = 0, allowed = 0;
    bool ok = true;
    /// Number of the model call or training step, from 1, if there are several; else 0.
    uint32_t call = 0;
    /// Sizes of the dynamic dimensions, if they are not the traced ones: `batch=3, seq=65`.
    std::string sizes;
    /// Name of the inputs that the module answered to: `traced`, `seq=9`; empty for other comparisons.
    std::string witness;
    /// `error` is that against a run of the original in float64.
    bool isAgainstFloat64 = false;
  };
  enum class Kind { Output, Gradient, Weight, Witness };

  std::vector<Compared> outputs;
  /// Of plans that give gradients, or that train.
  std::vector<Compared> gradients;
  /// Trained weights, after the last step.
  std::vector<Compared> weights;
  /// Outputs beside those of the module that was traced.
  std::vector<Compared> witnesses;
  /// By set of inputs that the module answered to and the plan, too: its name.
  std::vector<std::string> witnessNames;
  /// What was not compared, and why: sizes at which the original itself raises, with its message.
  std::vector<std::string> skipped;
  /// Messages for the user.
  std::vector<std::string> notes;
  /// Where the plan draws random numbers, others in every run: `aten.dropout in layers.0`. Empty if it does
  /// not.
  std::string draws;

  std::vector<Compared> &of(Kind kind);
  /// All that was compared: outputs first, witnesses last.
  void forEach(llvm::function_ref<void(Kind, const Compared &)> use) const;
  /// A tensor that differs.
  struct Difference {
    /// As `describe` gives it.
    std::string name;
    /// As in Compared.
    double error, allowed;
    /// From the module; the trace does not.
    bool isFromWitness = false;
  };
  /// The first difference in the order of `forEach`; nullopt if all tensors are the same.
  std::optional<Difference> firstDifference() const;
  bool ok() const { return !firstDifference(); }
  double maxAbsError() const;
  double maxRelError() const;
};

/// `decode: output.0 at batch=3, call 2`, `grad.fc.weight`, `weight fc.weight after step 3`, `output.0 of
/// witness seq=9`.
std::string describe(VerifyReport::Kind kind, const VerifyReport::Compared &compared);

/// Part of a message about a difference: that the plan draws random numbers at `draws`, and what to do.
/// Empty if it draws none.
std::string describeDraws(llvm::StringRef draws);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYREPORT_H
