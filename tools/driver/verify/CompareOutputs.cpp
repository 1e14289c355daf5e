//===- CompareOutputs.cpp - Plans that only infer -------------------------===//
#include "runtime/base/DTypes.h"
#include "tools/driver/verify/Comparison.h"
#include "tools/driver/verify/PlanComparison.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace cleave {

void addTo(VerifyReport &report, VerifyReport::Kind kind, const VerifyReport::Compared &where,
           VerifyReport::Compared compared, llvm::StringRef name, size_t call) {
  compared.signature = where.signature;
  compared.sizes = where.sizes;
  compared.witness = where.witness;
  compared.name = name.str();
  compared.call = call;
  report.of(kind).push_back(std::move(compared));
}

VerifyReport::Compared compareValue(const at::Tensor &found, const at::Tensor &expected,
                                    std::optional<at::ScalarType> precision) {
  const Comparison comparison = compare(found, expected, precision);
  VerifyReport::Compared compared;
  compared.shape = expected.sizes().vec();
  compared.maxAbsError = comparison.maxAbsError;
  compared.maxRelError = comparison.maxRelError;
  compared.error = comparison.error;
  compared.allowed = comparison.allowed;
  compared.ok = comparison.isSame;
  return compared;
}

void compareStates(llvm::ArrayRef<runtime::NamedTensor> found, llvm::ArrayRef<runtime::NamedTensor> expected,
                   const VerifyReport::Compared &where, size_t call, VerifyReport &report) {
  for (const runtime::NamedTensor &state : expected) {
    auto same = llvm::find_if(found, [&](const runtime::NamedTensor &one) { return one.name == state.name; });
    if (same != found.end())
      addTo(report, VerifyReport::Kind::Output, where, compareValue(same->tensor, state.tensor),
            "state " + state.name, call);
  }
}

namespace {
class OutputComparison : public PlanComparison {
public:
  explicit OutputComparison(ComparedPlan compared) : compared(compared) {}

  size_t calls() const override { return compared.callCount(); }
  llvm::Error runOriginal(llvm::ArrayRef<Inputs> calls) override;
  llvm::Error comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                          VerifyReport &report) override;

private:
  const ComparedPlan compared;
  /// Outputs of each call.
  std::vector<std::vector<at::Tensor>> expected;
};
} // namespace

llvm::Error OutputComparison::runOriginal(llvm::ArrayRef<Inputs> calls) {
  c10::InferenceMode inference;
  expected.clear();
  compared.original.resetState();
  for (const Inputs &given : calls) {
    // The model may write to its inputs in place.
    Inputs copies;
    for (const at::Tensor &input : given)
      copies.push_back(input.clone());
    auto outputs = compared.original.run(copies);
    if (!outputs)
      return outputs.takeError();
    // A later call may write to this output.
    std::vector<at::Tensor> &kept = expected.emplace_back();
    for (const runtime::NamedTensor &output : *outputs)
      kept.push_back(output.tensor.clone());
  }
  return llvm::Error::success();
}

llvm::Error OutputComparison::comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                                          VerifyReport &report) {
  c10::InferenceMode inference;
  const auto precision = computeDTypeOf(compared.session.plan());
  if (auto error = compared.session.resetState())
    return error;
  for (auto [call, given, tensors] : llvm::enumerate(calls, expected)) {
    auto actual = compared.session.run(given, {.signature = compared.index});
    if (!actual)
      return actual.takeError();
    if (tensors.size() != actual->size())
      return llvm::createStringError("the original gives " + llvm::Twine(tensors.size()) +
                                     " tensors, the plan " + llvm::Twine(actual->size()));
    for (auto [output, a, b] : llvm::zip(compared.signature().outputs, *actual, tensors))
      addTo(report, VerifyReport::Kind::Output, where, compareValue(a, b, precision), output->name,
            calls.size() > 1 ? call + 1 : 0);
  }
  return llvm::Error::success();
}

std::unique_ptr<PlanComparison> makeOutputComparison(ComparedPlan compared) {
  return std::make_unique<OutputComparison>(compared);
}

} // namespace cleave
