//===- PlanComparison.h - Runs original and plan ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_PLANCOMPARISON_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_PLANCOMPARISON_H

#include "runtime/session/Session.h"
#include "tools/driver/verify/AutogradModel.h"
#include "tools/driver/verify/PlanTraining.h"
#include "tools/driver/verify/VerifyReport.h"
#include <memory>

namespace cleave {

/// Runs the original and the plan on the same successive inputs, and compares. A signature of a plan has one
/// comparison for all sizes.
class PlanComparison {
public:
  virtual ~PlanComparison() = default;
  /// Number of successive calls that are compared, each with inputs of its own.
  virtual size_t calls() const = 0;
  /// Runs the original from its saved state, and keeps what it gives. Fails if the original does.
  virtual llvm::Error runOriginal(llvm::ArrayRef<Inputs> calls) = 0;
  /// Runs the plan on the same inputs, and adds to the report. `where` has the signature and the sizes.
  virtual llvm::Error comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                                  VerifyReport &report) = 0;
};

/// What a comparison is of; all of it outlives the comparison.
struct ComparedPlan {
  runtime::Session &session;
  uint32_t index;
  OriginalModel &original;
  const plan::Signature &signature() const { return *session.plan().signatures[index]; }
  /// Number of successive calls to compare: several for a plan that keeps state.
  size_t callCount() const {
    constexpr size_t kCallsWithState = 4;
    return session.plan().states.empty() ? 1 : kCallsWithState;
  }
};

/// Names of the weights whose gradients a signature gives: outputs `grad.NAME` of a plan made by
/// `compile --gradients`. Empty for other plans.
std::vector<std::string> gradientsOf(const plan::Signature &signature);

struct AutogradOptions {
  /// As GradientOptions.
  std::string loss;
  /// As GradientOptions: a weight that these train and the plan does not differs. nullopt: the weights of the
  /// plan.
  std::optional<std::vector<std::string>> trainable;
};

/// The original under autograd, and the weights whose gradients are compared: those of the plan, and then
/// those that the plan should have.
struct ComparedGradients {
  std::unique_ptr<AutogradModel> model;
  std::vector<std::string> weights;
};
/// \param ofPlan  weights that the plan gives gradients of, or trains. Fails as `makeGradientComparison`.
llvm::Expected<ComparedGradients> prepareGradients(ComparedPlan compared, const AutogradOptions &options,
                                                   std::vector<std::string> ofPlan, const Inputs &inputs);

/// `where` with what was found of a tensor.
void addTo(VerifyReport &report, VerifyReport::Kind kind, const VerifyReport::Compared &where,
           VerifyReport::Compared compared, llvm::StringRef name, size_t call);
/// Compares a tensor of the forward pass: an output, a state.
VerifyReport::Compared compareValue(const at::Tensor &found, const at::Tensor &expected,
                                    std::optional<at::ScalarType> precision = std::nullopt);
/// Compares states that both have, by name.
void compareStates(llvm::ArrayRef<runtime::NamedTensor> found, llvm::ArrayRef<runtime::NamedTensor> expected,
                   const VerifyReport::Compared &where, size_t call, VerifyReport &report);

std::unique_ptr<PlanComparison> makeOutputComparison(ComparedPlan compared);
/// Compares outputs, gradients, and states after the last call. Fails if the original draws random numbers,
/// or the options do not fit. \param inputs  any on which the original runs.
llvm::Expected<std::unique_ptr<PlanComparison>>
makeGradientComparison(ComparedPlan compared, const AutogradOptions &options, const Inputs &inputs);
/// Trains for three steps with decreasing learning rates, by the plan and by torch::optim. Compares loss and
/// gradient norm of each step (`outputs`), gradients and states after the first step, and weights after the
/// last. Fails as `makeGradientComparison`.
llvm::Expected<std::unique_ptr<PlanComparison>> makeTrainingComparison(ComparedPlan compared,
                                                                       PlanTraining training,
                                                                       const AutogradOptions &options,
                                                                       const Inputs &inputs);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_PLANCOMPARISON_H
