//===- WitnessedSizes.h - Sizes that witnesses cover ------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSEDSIZES_H
#define CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSEDSIZES_H

#include "codegen/plan/Plan.h"
#include "frontend/torchscript/ModelInputs.h"
#include "tools/driver/base/ModelSource.h"
#include "tools/driver/witnesses/WitnessFile.h"

namespace cleave {

/// By dynamic dimension: the sizes at which trace and module agree, as comparisons or guards show. Dimensions
/// that were not looked at have no entry.
using WitnessedRanges = llvm::StringMap<plan::WitnessedRange>;

/// What the witnesses say of the dimensions of one signature.
class WitnessedSizes {
public:
  /// \param dynamicOptions  CompileOptions::dynamic, for messages.
  /// Fails if trace and module agree at one size of a dimension that the user opened, or not at the sizes of
  /// `inputs`.
  static llvm::Expected<WitnessedSizes> of(const WitnessFile &file, const ModelInputs &inputs,
                                           llvm::ArrayRef<std::string> dynamicOptions);
  /// The same without failures, and without ranges: for dimensions that are opened in spite of the witnesses.
  static WitnessedSizes ignored(const WitnessFile &file, const ModelInputs &inputs);

  WitnessedRanges ranges;
  /// For the reader of the plan.
  std::vector<std::string> notes;
  /// The user opened a dimension.
  bool hasOpened = false;
};

/// The witnesses of a model that is compiled.
class PlanWitnesses {
public:
  /// Reads the file beside the model. Fails if it is damaged, or as WitnessedSizes does.
  static llvm::Expected<PlanWitnesses> read(const CompileOptions &options, const ModelSource &source);
  /// Sets the ranges of the signatures' symbols, and adds notes of the kinds `witnesses` and `trace` (the
  /// tracer's warnings: Python values that became constants).
  void addTo(plan::Plan &plan) const;

private:
  /// By signature.
  llvm::StringMap<WitnessedRanges> ranges;
  std::vector<plan::Note> notes;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSEDSIZES_H
