//===- CompareTraining.cpp - Plans that train -----------------------------===//
#include "tools/driver/verify/Comparison.h"
#include "tools/driver/verify/GradientTolerance.h"
#include "tools/driver/verify/PlanComparison.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ATen.h>
#include <cmath>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace cleave {

using at::Tensor;
using runtime::NamedTensor;
using runtime::TrainedTensors;

static constexpr size_t kSteps = 3;
/// Steps after the first run on weights that already differ: so many times the tolerance.
static constexpr double kLaterStepFactor = 10;
/// A norm sums the errors of all gradients: so many times the tolerance of the loss.
static constexpr double kNormFactor = 10;
/// Where the original in float64 is known, results may be so many times its distance from the original away,
static constexpr double kFloat64ErrorFactor = 4;
/// but not farther than this fraction of the number: beyond it the original takes another branch in float64.
static constexpr double kMaxSlackFraction = 1e-2;
/// torch.nn.utils.clip_grad_norm_ divides gradients by (norm + kClipEpsilon) / clip norm.
static constexpr double kClipEpsilon = 1e-6;

namespace {
/// Three steps of the original.
struct TrainedOriginal {
  /// Loss of each step, before its update.
  std::vector<double> losses;
  /// Global norm of the gradients of each step, before clipping.
  std::vector<double> norms;
  /// Dtype of the model's loss.
  at::ScalarType lossDType;
  /// Of each step, the gradients of ComparedGradients::weights, before clipping.
  std::vector<std::vector<Tensor>> gradients;
  /// Of each step, the largest magnitude of each of `gradients`.
  std::vector<std::vector<double>> largest;
  /// Of each step, the largest magnitude of all `gradients`.
  std::vector<double> largestOfModel;
  /// PlanTraining::weights after the last step.
  std::vector<Tensor> weights;
  /// The model's states after the first step.
  std::vector<NamedTensor> states;
};
/// Three steps of the plan.
struct TrainedPlan {
  std::vector<double> losses, norms;
  TrainedTensors first;
  std::vector<NamedTensor> lastWeights;
};

class TrainingComparison : public PlanComparison {
public:
  TrainingComparison(ComparedPlan compared, PlanTraining training, ComparedGradients gradients,
                     TrainedTensors initial)
      : compared(compared), training(std::move(training)), gradients(std::move(gradients)),
        initial(std::move(initial)) {
    // Plain SGD at a small rate would hide its gradients in the rounding of the weights.
    const double first = this->training.usesAdam() ? 1e-3 : 0.05;
    for (size_t step = 0; step < kSteps; ++step)
      rates.push_back(float(first / double(step + 1)));
  }

  size_t calls() const override { return kSteps; }
  llvm::Error runOriginal(llvm::ArrayRef<Inputs> calls) override;
  llvm::Error comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                          VerifyReport &report) override;

private:
  llvm::Expected<TrainedOriginal> trainOriginal(llvm::ArrayRef<Inputs> calls,
                                                AutogradModel::Precision precision);
  std::unique_ptr<torch::optim::Optimizer> makeOptimizer(llvm::ArrayRef<Tensor> weights) const;
  llvm::Expected<TrainedPlan> trainPlan(llvm::ArrayRef<Inputs> calls);
  /// \param float64  the original, trained in float64: its distance from `expected` is added to tolerances;
  /// null: nothing is added.
  VerifyReport compareAll(const TrainedPlan &plan, const VerifyReport::Compared &where,
                          const TrainedOriginal *float64) const;
  VerifyReport::Compared compareGradientOf(size_t index, const TrainedPlan &plan,
                                           const TrainedOriginal *float64) const;
  VerifyReport::Compared compareWeightOf(size_t index, const TrainedPlan &plan,
                                         const TrainedOriginal *float64) const;

  const ComparedPlan compared;
  const PlanTraining training;
  ComparedGradients gradients;
  const TrainedTensors initial;
  std::vector<double> rates;
  TrainedOriginal expected;
};
} // namespace

//===- The original -------------------------------------------------------===//

template <typename Options> static Options adamOptions(const plan::OptimizerConfig &config) {
  return Options(0).betas({config.beta1, config.beta2}).eps(config.epsilon).weight_decay(config.weight_decay);
}

static std::unique_ptr<torch::optim::OptimizerOptions> optionsOf(const plan::OptimizerConfig &config) {
  using namespace torch::optim;
  switch (config.optimizer) {
  case plan::Optimizer::Adam:
    return std::make_unique<AdamOptions>(adamOptions<AdamOptions>(config));
  case plan::Optimizer::AdamW:
    return std::make_unique<AdamWOptions>(adamOptions<AdamWOptions>(config));
  case plan::Optimizer::Sgd:
    break;
  }
  return std::make_unique<SGDOptions>(
      SGDOptions(0).momentum(config.momentum).nesterov(config.nesterov).weight_decay(config.weight_decay));
}

std::unique_ptr<torch::optim::Optimizer>
TrainingComparison::makeOptimizer(llvm::ArrayRef<Tensor> weights) const {
  using namespace torch::optim;
  std::vector<OptimizerParamGroup> groups;
  for (auto [weight, tensor] : llvm::zip(training.weights, weights))
    groups.emplace_back(std::vector<Tensor>{tensor}, optionsOf(weight.optimizer));
  switch (training.weights.front().optimizer.optimizer) {
  case plan::Optimizer::Adam:
    return std::make_unique<Adam>(groups);
  case plan::Optimizer::AdamW:
    return std::make_unique<AdamW>(groups);
  case plan::Optimizer::Sgd:
    break;
  }
  return std::make_unique<SGD>(groups, SGDOptions(0));
}

llvm::Expected<TrainedOriginal> TrainingComparison::trainOriginal(llvm::ArrayRef<Inputs> calls,
                                                                  AutogradModel::Precision precision) {
  TrainedOriginal result;
  AutogradModel &model = *gradients.model;
  model.reset(precision);
  // Further weights are those that the plan lacks.
  const std::vector<Tensor> weights = model.weights().take_front(training.weights.size());
  auto optimizer = makeOptimizer(weights);
  for (auto [step, inputs] : llvm::enumerate(calls)) {
    auto found = model.run(inputs);
    if (!found)
      return found.takeError();
    result.losses.push_back(found->loss.item<double>());
    result.lossDType = found->loss.scalar_type();
    for (auto [weight, gradient] : llvm::zip(weights, found->gradients))
      weight.mutable_grad() = gradient.defined() ? gradient.clone() : gradient;
    result.gradients.push_back(std::move(found->gradients));
    std::vector<double> &largest = result.largest.emplace_back();
    for (const Tensor &gradient : result.gradients.back())
      largest.push_back(maxAbs(gradient));
    result.largestOfModel.push_back(*llvm::max_element(largest));
    result.norms.push_back(torch::nn::utils::clip_grad_norm_(
        weights, training.clipNorm.value_or(std::numeric_limits<double>::infinity())));
    if (!std::isfinite(result.norms.back()))
      return llvm::createStringError("the gradients of the original are not finite");
    for (auto &group : optimizer->param_groups())
      group.options().set_lr(rates[step]);
    optimizer->step();
    if (step == 0)
      result.states = model.stateTensors();
  }
  for (const Tensor &weight : weights)
    result.weights.push_back(weight.detach().clone());
  return result;
}

llvm::Error TrainingComparison::runOriginal(llvm::ArrayRef<Inputs> calls) {
  return trainOriginal(calls, AutogradModel::Precision::Traced).moveInto(expected);
}

//===- The plan -----------------------------------------------------------===//

llvm::Expected<TrainedPlan> TrainingComparison::trainPlan(llvm::ArrayRef<Inputs> calls) {
  TrainedPlan result;
  if (llvm::Error error = compared.session.restore(initial))
    return error;
  for (auto [step, given] : llvm::enumerate(calls)) {
    Inputs inputs = given;
    inputs[training.learningRateInput] = at::scalar_tensor(rates[step], at::kFloat);
    inputs[training.stepInput] = at::scalar_tensor(double(step + 1), at::kFloat);
    auto outputs = compared.session.run(inputs, {.signature = compared.index});
    if (!outputs)
      return outputs.takeError();
    result.losses.push_back((*outputs)[training.lossOutput].item<double>());
    result.norms.push_back((*outputs)[training.gradNormOutput].item<double>());
    if (step == 0)
      if (llvm::Error error = compared.session.trainedTensors().moveInto(result.first))
        return error;
  }
  auto last = compared.session.trainedTensors();
  if (!last)
    return last.takeError();
  result.lastWeights = std::move(last->weights);
  return result;
}

static Tensor named(llvm::ArrayRef<NamedTensor> tensors, llvm::StringRef name) {
  for (const NamedTensor &tensor : tensors)
    if (tensor.name == name)
      return tensor.tensor;
  return {};
}

//===- Comparison ---------------------------------------------------------===//

namespace {
/// `rounding`: bound of the rounding error of `gradient`.
struct RecoveredGradient {
  Tensor gradient;
  double rounding = 0;
};
} // namespace

/// The clipped gradient of the first step, in float64, recovered from the optimizer's first moment or,
/// without one, from the change of the weight. Weight decay that the optimizer adds to the gradient (all but
/// AdamW) is subtracted again.
static RecoveredGradient recoverGradient(const PlanTraining::Weight &weight, const plan::Plan &plan,
                                         const Tensor &before, const TrainedTensors &after, double rate) {
  const plan::OptimizerConfig &config = weight.optimizer;
  const Tensor changed = named(after.weights, weight.name);
  if (!before.defined() || !changed.defined())
    return {};
  const double epsilon = epsilonOf(before.scalar_type());
  const bool isAdam = config.optimizer != plan::Optimizer::Sgd;
  RecoveredGradient result;
  if (!config.states.empty()) {
    const Tensor moment = named(after.states, plan.states[config.states.front()]->name);
    if (!moment.defined())
      return {};
    result.gradient = moment.to(at::kDouble) / (isAdam ? 1 - config.beta1 : 1);
    result.rounding = 4 * epsilon * maxAbs(result.gradient);
  } else {
    result.gradient = (before.to(at::kDouble) - changed.to(at::kDouble)) / rate;
    result.rounding = epsilon * (maxAbs(before) + maxAbs(changed)) / rate;
  }
  if (config.optimizer != plan::Optimizer::AdamW && config.weight_decay != 0) {
    result.gradient = result.gradient - config.weight_decay * before.to(at::kDouble);
    result.rounding += 4 * epsilon * config.weight_decay * maxAbs(before);
  }
  return result;
}

VerifyReport::Compared TrainingComparison::compareGradientOf(size_t index, const TrainedPlan &plan,
                                                             const TrainedOriginal *float64) const {
  RecoveredGradient found;
  if (index < training.weights.size())
    found = recoverGradient(training.weights[index], compared.session.plan(),
                            named(initial.weights, training.weights[index].name), plan.first, rates.front());
  // Undo the clipping.
  const double scale =
      training.clipNorm ? std::max(1.0, (plan.norms.front() + kClipEpsilon) / *training.clipNorm) : 1;
  const Tensor gradient = found.gradient.defined() ? found.gradient * scale : found.gradient;
  const Tensor &original = expected.gradients.front()[index];
  VerifyReport::Compared result =
      compareGradient(gradient, original, expected.largestOfModel.front(), found.rounding * scale);
  if (!result.ok && float64)
    compareWithFloat64(result, gradient, original, float64->gradients.front()[index]);
  return result;
}

VerifyReport::Compared TrainingComparison::compareWeightOf(size_t index, const TrainedPlan &plan,
                                                           const TrainedOriginal *float64) const {
  double largest = 0, largestOfModel = 0, error = 0;
  for (size_t step = 0; step < kSteps; ++step) {
    largest = std::max(largest, expected.largest[step][index]);
    largestOfModel = std::max(largestOfModel, expected.largestOfModel[step]);
    if (float64)
      error = std::max(error, kFloat64ErrorFactor * maxAbsDifference(expected.gradients[step][index],
                                                                     float64->gradients[step][index]));
  }
  const WeightSteps steps{training.usesAdam(), rates, allowedGradientError(largest, largestOfModel) + error,
                          expected.gradients.front()[index]};
  const Tensor found = named(plan.lastWeights, training.weights[index].name);
  VerifyReport::Compared result =
      compareWeight(found.defined() ? found : at::zeros({0}), expected.weights[index], steps);
  result.isAgainstFloat64 = float64 != nullptr && error > 0;
  return result;
}

/// Compares loss or norm of a step.
/// \param slack  added to the tolerance.
static VerifyReport::Compared compareNumber(double found, double expected, double tolerance, double slack) {
  VerifyReport::Compared compared;
  const double size = std::abs(expected);
  compared.error = compared.maxAbsError = std::isnan(found) ? INFINITY : std::abs(found - expected);
  compared.allowed = std::min(tolerance * std::max(1.0, size), 100 * tolerance * size) + slack;
  compared.maxRelError = compared.error == 0 ? 0 : compared.error / size;
  compared.ok = compared.error <= compared.allowed;
  compared.isAgainstFloat64 = slack > 0;
  return compared;
}

VerifyReport TrainingComparison::compareAll(const TrainedPlan &plan, const VerifyReport::Compared &where,
                                            const TrainedOriginal *float64) const {
  using Kind = VerifyReport::Kind;
  VerifyReport report;
  for (size_t step = 0; step < kSteps; ++step) {
    const double growth = step == 0 ? 1 : kLaterStepFactor,
                 tolerance = growth * toleranceOf(expected.lossDType);
    auto float64Slack = [&](auto numbers) {
      const double number = (expected.*numbers)[step];
      return float64 ? std::min(kFloat64ErrorFactor * std::abs(number - (float64->*numbers)[step]),
                                kMaxSlackFraction * std::abs(number))
                     : 0;
    };
    addTo(report, Kind::Output, where,
          compareNumber(plan.losses[step], expected.losses[step], tolerance,
                        float64Slack(&TrainedOriginal::losses)),
          "loss", step + 1);
    // The plan computes the norm in float32, whatever the dtype of the gradients.
    addTo(report, Kind::Output, where,
          compareNumber(plan.norms[step], expected.norms[step],
                        kNormFactor * std::max(tolerance, growth * toleranceOf(at::kFloat)),
                        float64Slack(&TrainedOriginal::norms)),
          "grad_norm", step + 1);
  }
  compareStates(plan.first.states, expected.states, where, 1, report);
  for (auto [index, name] : llvm::enumerate(gradients.weights)) {
    const bool isTrained = index < training.weights.size();
    if (isTrained || expected.gradients.front()[index].defined())
      addTo(report, Kind::Gradient, where, compareGradientOf(index, plan, float64), name, 1);
    if (isTrained)
      addTo(report, Kind::Weight, where, compareWeightOf(index, plan, float64), name, kSteps);
  }
  return report;
}

llvm::Error TrainingComparison::comparePlan(llvm::ArrayRef<Inputs> calls, const VerifyReport::Compared &where,
                                            VerifyReport &report) {
  auto plan = trainPlan(calls);
  if (!plan)
    return plan.takeError();
  VerifyReport found = compareAll(*plan, where, nullptr);
  if (!found.ok()) {
    auto float64 = trainOriginal(calls, AutogradModel::Precision::Float64);
    if (float64)
      found = compareAll(*plan, where, &*float64);
    else
      found.notes.push_back("the original does not train in float64: " + llvm::toString(float64.takeError()));
  }
  for (auto kind : {VerifyReport::Kind::Output, VerifyReport::Kind::Gradient, VerifyReport::Kind::Weight})
    llvm::append_range(report.of(kind), found.of(kind));
  llvm::append_range(report.notes, found.notes);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<PlanComparison>> makeTrainingComparison(ComparedPlan compared,
                                                                       PlanTraining training,
                                                                       const AutogradOptions &options,
                                                                       const Inputs &inputs) {
  std::vector<std::string> names;
  for (const PlanTraining::Weight &weight : training.weights)
    names.push_back(weight.name);
  auto gradients = prepareGradients(compared, options, std::move(names), inputs);
  if (!gradients)
    return gradients.takeError();
  auto initial = compared.session.trainedTensors();
  if (!initial)
    return initial.takeError();
  return std::make_unique<TrainingComparison>(compared, std::move(training), std::move(*gradients),
                                              std::move(*initial));
}

} // namespace cleave
