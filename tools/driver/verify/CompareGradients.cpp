//===- CompareGradients.cpp - Plans that give gradients -------------------===//
#include "tools/driver/verify/GradientTolerance.h"
#include "tools/driver/verify/PlanComparison.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using at::Tensor;

/// As differentiate names results.
static constexpr llvm::StringLiteral kGradientPrefix = "grad.";

std::vector<std::string> gradientsOf(const plan::Signature &signature) {
  std::vector<std::string> names;
  const plan::Tree &tree = *signature.output_tree;
  if (tree.kind != plan::TreeKind::Dict || !llvm::is_contained(tree.keys, "gradients"))
    return names;
  for (auto &output : signature.outputs)
    if (llvm::StringRef name = output->name; name.consume_front(kGradientPrefix))
      names.push_back(name.str());
  return names;
}

/// Error for a model that draws random numbers: plan and original would draw different ones.
static llvm::Error refuseRandom(const plan::Plan &plan) {
  auto note = llvm::find_if(plan.notes, [](auto &one) { return one->kind == "random"; });
  const std::string place =
      note == plan.notes.end() ? "" : (" (" + (*note)->op + " in " + (*note)->module_path + ")");
  return llvm::createStringError(
      "found a model that draws random numbers" + place +
      ", expected one without: plan and original would draw different numbers; trace it with dropout "
      "probabilities of 0 and compile that");
}

llvm::Expected<ComparedGradients> prepareGradients(ComparedPlan compared, const AutogradOptions &options,
                                                   std::vector<std::string> ofPlan, const Inputs &inputs) {
  auto loss = OriginalLoss::parse(options.loss);
  if (!loss)
    return loss.takeError();
  ComparedGradients result;
  result.model = std::make_unique<AutogradModel>(compared.original, compared.signature(), std::move(*loss));
  result.weights = std::move(ofPlan);
  if (options.trainable) {
    auto names = result.model->trainedNames(*options.trainable, result.weights);
    if (!names)
      return names.takeError();
    for (std::string &name : *names)
      if (!llvm::is_contained(result.weights, name))
        result.weights.push_back(std::move(name));
  }
  if (llvm::Error error = result.model->setTrained(result.weights))
    return error;
  auto isRandom = result.model->isRandom(inputs);
  if (!isRandom)
    return isRandom.takeError();
  if (*isRandom)
    return refuseRandom(compared.session.plan());
  return result;
}

namespace {
class GradientComparison : public PlanComparison {
public:
  GradientComparison(ComparedPlan compared, ComparedGradients gradients)
      : compared(compared), gradients(std::move(gradients)) {}

  size_t calls() const override { return compared.callCount(); }
  llvm::Error runOriginal(llvm::ArrayRef<Inputs> calls) override;
  llvm::Error comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                          VerifyReport &report) override;

private:
  /// Gradients of each call, one for each of `gradients.weights`; undefined where the plan gives none.
  using GradientsOfCalls = std::vector<std::vector<Tensor>>;

  /// Runs the plan from its initial state, and compares what its forward passes give.
  llvm::Expected<GradientsOfCalls> runPlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                                           VerifyReport &report) const;
  void compareGradients(llvm::ArrayRef<Inputs> calls, const GradientsOfCalls &found,
                        const VerifyReport::Compared &where, VerifyReport &report) const;
  /// Results of the original in float64. Empty ones and a note if it does not run in float64.
  std::vector<AutogradModel::Result> runInFloat64(llvm::ArrayRef<Inputs> calls, VerifyReport &report) const;
  /// Compares the states after the last call.
  llvm::Error compareLastStates(const VerifyReport::Compared &where, VerifyReport &report) const;
  /// As VerifyReport::Compared::call.
  size_t callNumber(size_t call) const { return expected.size() > 1 ? call + 1 : 0; }
  llvm::Error compareForward(llvm::ArrayRef<Tensor> found, const AutogradModel::Result &original,
                             const VerifyReport::Compared &where, size_t call, VerifyReport &report) const;
  /// The gradients among the outputs of one call.
  std::vector<Tensor> gradientsIn(llvm::ArrayRef<Tensor> found) const;

  const ComparedPlan compared;
  ComparedGradients gradients;
  std::vector<AutogradModel::Result> expected;
  std::vector<runtime::NamedTensor> expectedStates;
};
} // namespace

static llvm::Error runAll(AutogradModel &model, AutogradModel::Precision precision,
                          llvm::ArrayRef<Inputs> calls, std::vector<AutogradModel::Result> &results) {
  model.reset(precision);
  for (const Inputs &inputs : calls) {
    auto result = model.run(inputs);
    if (!result)
      return result.takeError();
    results.push_back(std::move(*result));
  }
  return llvm::Error::success();
}

llvm::Error GradientComparison::runOriginal(llvm::ArrayRef<Inputs> calls) {
  expected.clear();
  llvm::Error error = runAll(*gradients.model, AutogradModel::Precision::Traced, calls, expected);
  expectedStates = gradients.model->stateTensors();
  return error;
}

/// The model's outputs, and the loss where it is none of them.
llvm::Error GradientComparison::compareForward(llvm::ArrayRef<Tensor> found,
                                               const AutogradModel::Result &original,
                                               const VerifyReport::Compared &where, size_t call,
                                               VerifyReport &report) const {
  std::vector<runtime::NamedTensor> tensors = original.outputs;
  size_t count = 0;
  for (auto &output : compared.signature().outputs)
    count += !llvm::StringRef(output->name).starts_with(kGradientPrefix);
  if (count == tensors.size() + 1 && gradients.model->hasAttachedLoss())
    tensors.push_back({"loss", original.loss});
  if (count != tensors.size())
    return llvm::createStringError("the plan gives " + llvm::Twine(count) +
                                   " tensors besides gradients, the original " + llvm::Twine(tensors.size()) +
                                   "; give the --loss that the plan was compiled with");
  size_t index = 0;
  for (auto [output, tensor] : llvm::zip(compared.signature().outputs, found))
    if (!llvm::StringRef(output->name).starts_with(kGradientPrefix))
      addTo(report, VerifyReport::Kind::Output, where, compareValue(tensor, tensors[index++].tensor),
            output->name, call);
  return llvm::Error::success();
}

std::vector<Tensor> GradientComparison::gradientsIn(llvm::ArrayRef<Tensor> found) const {
  std::vector<Tensor> result(gradients.weights.size());
  for (auto [output, tensor] : llvm::zip(compared.signature().outputs, found))
    if (llvm::StringRef name = output->name; name.consume_front(kGradientPrefix))
      if (auto weight = llvm::find(gradients.weights, name.str()); weight != gradients.weights.end())
        result[weight - gradients.weights.begin()] = tensor;
  return result;
}

llvm::Expected<GradientComparison::GradientsOfCalls>
GradientComparison::runPlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                            VerifyReport &report) const {
  if (llvm::Error error = compared.session.resetState())
    return error;
  GradientsOfCalls found;
  for (auto [call, inputs, original] : llvm::enumerate(calls, expected)) {
    auto outputs = compared.session.run(inputs, {.signature = compared.index});
    if (!outputs)
      return outputs.takeError();
    if (llvm::Error error = compareForward(*outputs, original, where, callNumber(call), report))
      return error;
    found.push_back(gradientsIn(*outputs));
  }
  return found;
}

std::vector<AutogradModel::Result> GradientComparison::runInFloat64(llvm::ArrayRef<Inputs> calls,
                                                                    VerifyReport &report) const {
  std::vector<AutogradModel::Result> results;
  if (llvm::Error error = runAll(*gradients.model, AutogradModel::Precision::Float64, calls, results)) {
    report.notes.push_back("the original does not run in float64: " + llvm::toString(std::move(error)));
    // Empty results: do not try float64 again.
    results.assign(calls.size(), {});
  }
  return results;
}

void GradientComparison::compareGradients(llvm::ArrayRef<Inputs> calls, const GradientsOfCalls &found,
                                          const VerifyReport::Compared &where, VerifyReport &report) const {
  // Computed when a gradient differs.
  std::vector<AutogradModel::Result> float64;
  for (auto [call, original] : llvm::enumerate(expected)) {
    const double largest = maxAbs(original.gradients);
    for (auto [index, name] : llvm::enumerate(gradients.weights)) {
      const Tensor &plan = found[call][index], &gradient = original.gradients[index];
      if (!plan.defined() && !gradient.defined())
        continue;
      VerifyReport::Compared result = compareGradient(plan, gradient, largest);
      if (!result.ok && float64.empty())
        float64 = runInFloat64(calls, report);
      if (!result.ok && !float64[call].gradients.empty())
        compareWithFloat64(result, plan, gradient, float64[call].gradients[index]);
      addTo(report, VerifyReport::Kind::Gradient, where, std::move(result), name, callNumber(call));
    }
  }
}

llvm::Error GradientComparison::compareLastStates(const VerifyReport::Compared &where,
                                                  VerifyReport &report) const {
  if (expectedStates.empty())
    return llvm::Error::success();
  auto tensors = compared.session.trainedTensors();
  if (!tensors)
    return tensors.takeError();
  compareStates(tensors->states, expectedStates, where, callNumber(expected.size() - 1), report);
  return llvm::Error::success();
}

llvm::Error GradientComparison::comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                                            VerifyReport &report) {
  auto found = runPlan(calls, where, report);
  if (!found)
    return found.takeError();
  compareGradients(calls, *found, where, report);
  return compareLastStates(where, report);
}

llvm::Expected<std::unique_ptr<PlanComparison>>
makeGradientComparison(ComparedPlan compared, const AutogradOptions &options, const Inputs &inputs) {
  auto gradients = prepareGradients(compared, options, gradientsOf(compared.signature()), inputs);
  if (!gradients)
    return gradients.takeError();
  return std::make_unique<GradientComparison>(compared, std::move(*gradients));
}

} // namespace cleave
