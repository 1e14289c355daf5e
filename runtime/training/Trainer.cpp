//===- Trainer.cpp --------------------------------------------------------===//
#include "runtime/training/Trainer.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/TrainingStep.h"
#include "random/SplitMix.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/DeviceWorker.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <array>
#include <cmath>
#include <cstring>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

// Names in a checkpoint.
static constexpr llvm::StringLiteral kWeightPrefix = "weight/", kStatePrefix = "state/", kSteps = "steps";

Expected<std::unique_ptr<Trainer>> Trainer::open(llvm::StringRef plan, TrainerOptions options) {
  if (options.session.hasCoordinator)
    return llvm::createStringError("found a coordinator (SessionOptions::hasCoordinator), expected processes "
                                   "that make the same calls");
  auto session = Session::open(plan, options.session);
  if (!session)
    return session.takeError();
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(*session), std::move(options)));
  if (Error error = trainer->bindSignature())
    return llvm::createStringError(plan + ": " + llvm::toString(std::move(error)));
  return trainer;
}

static bool isFloat32Scalar(const plan::TensorType &type) {
  return type.ranked && type.dims.empty() && type.dtype == plan::DType::Float;
}

Error Trainer::bindSignature() {
  const std::string refusal = "this plan does not train; make one with cleave compile --train";
  if (ownedSession->plan().signatures.size() != 1)
    return llvm::createStringError(refusal);
  const plan::Signature &signature = *ownedSession->plan().signatures.front();
  auto hasInput = [&](llvm::StringRef role) {
    auto found = llvm::find_if(signature.inputs, [&](auto &input) { return input->role == role; });
    return found != signature.inputs.end() && isFloat32Scalar(*(*found)->type);
  };
  auto output = [&](llvm::StringRef name, size_t &index) {
    auto found = llvm::find_if(signature.outputs, [&](auto &output) { return output->name == name; });
    index = found - signature.outputs.begin();
    auto isOne = [](const auto &dim) { return plan::asConstant(*dim) == 1; };
    return found != signature.outputs.end() && (*found)->type->ranked &&
           llvm::all_of((*found)->type->dims, isOne);
  };
  if (hasInput(plan::kLearningRateRole) && hasInput(plan::kStepRole) &&
      output(plan::kLossOutput, lossOutput) && output(plan::kGradNormOutput, normOutput))
    return Error::success();
  return llvm::createStringError(refusal);
}

std::vector<const plan::Input *> Trainer::inputs() const {
  std::vector<const plan::Input *> inputs;
  for (const auto &input : ownedSession->plan().signatures.front()->inputs)
    if (!plan::isStepInput(*input))
      inputs.push_back(input.get());
  return inputs;
}

/// Samples of the batch: size of the first batch dimension divided by its constant factor; 0 if no input has
/// the batch. Assumes that no other symbol is a factor.
static int64_t batchSize(const plan::Signature &signature, llvm::ArrayRef<const plan::Input *> inputs,
                         llvm::ArrayRef<at::Tensor> batch) {
  for (auto [input, tensor] : llvm::zip(inputs, batch))
    if (auto dim = plan::batchDimension(*input->type, signature.batch); dim && int64_t(*dim) < tensor.dim()) {
      std::vector<int64_t> ones(signature.symbols.size(), 1);
      return tensor.size(*dim) /
             std::max<int64_t>(1, plan::evaluate(*input->type->dims[*dim], ones).value_or(1));
    }
  return 0;
}

/// One number for each seed and step.
static uint64_t seedOf(uint64_t seed, uint64_t step) { return mix64(seed + step * kSplitMixStep); }

std::vector<at::Tensor> Trainer::leavesOf(llvm::ArrayRef<at::Tensor> batch, const StepResult &step) const {
  const plan::Signature &signature = *ownedSession->plan().signatures.front();
  std::vector<at::Tensor> leaves;
  size_t next = 0;
  for (const auto &input : signature.inputs)
    if (input->role == plan::kLearningRateRole)
      leaves.push_back(at::scalar_tensor(step.learningRate, at::kFloat));
    else if (input->role == plan::kStepRole)
      leaves.push_back(at::scalar_tensor(double(step.number), at::kFloat));
    else if (input->role == plan::kRandomKeyRole)
      // ~seed: libtorch's GPU generators are Philox too, and would draw the same numbers from the same key.
      leaves.push_back(at::scalar_tensor(int64_t(seedOf(~options.seed, step.number)), at::kLong));
    else if (input->role == plan::kSampleIndexRole)
      leaves.push_back(at::arange(batchSize(signature, inputs(), batch), at::kLong));
    else
      leaves.push_back(batch[next++]);
  return leaves;
}

Expected<StepResult> Trainer::step(llvm::ArrayRef<at::Tensor> batch) {
  return catching([&] { return runStep(batch); });
}

Expected<StepResult> Trainer::runStep(llvm::ArrayRef<at::Tensor> batch) {
  const size_t expected = inputs().size();
  if (batch.size() != expected)
    return llvm::createStringError("found " + llvm::Twine(batch.size()) + " inputs, expected " +
                                   llvm::Twine(expected));
  StepResult step{.number = completed + 1,
                  .loss = 0,
                  .gradientNorm = 0,
                  .learningRate = options.learningRate.at(completed),
                  .isSkipped = false};
  const std::vector<at::Tensor> leaves = leavesOf(batch, step);
  seedStep(step.number);
  const std::string prefix = "step " + std::to_string(step.number) + ": ";
  auto results = ownedSession->run(leaves, {.errorPrefix = prefix});
  if (!results) {
    // That of a rank has the prefix.
    const std::string message = llvm::toString(results.takeError());
    return llvm::createStringError((llvm::StringRef(message).starts_with(prefix) ? "" : prefix) + message);
  }
  if (Error error = shareResult(*results, step))
    return error;
  step.isSkipped = !std::isfinite(step.gradientNorm) || !std::isfinite(step.loss);
  if (step.isSkipped && !options.skipNonFinite)
    return describeNonFinite(leaves, step);
  ++completed;
  return step;
}

Error Trainer::shareResult(llvm::ArrayRef<at::Tensor> results, StepResult &step) {
  const uint32_t root = ownedSession->outputProcess();
  std::array<double, 2> numbers{};
  if (ownedSession->process() == root)
    numbers = {results[lossOutput].item<double>(), results[normOutput].item<double>()};
  auto shared =
      ownedSession->broadcast(llvm::StringRef(reinterpret_cast<char *>(&numbers), sizeof numbers), root);
  if (!shared)
    return shared.takeError();
  if (shared->size() != sizeof numbers)
    return llvm::createStringError("rank %u sent %zu bytes, expected loss and gradient norm (%zu bytes)",
                                   root, shared->size(), sizeof numbers);
  std::memcpy(&numbers, shared->data(), sizeof numbers);
  step.loss = numbers[0];
  step.gradientNorm = numbers[1];
  return Error::success();
}

void Trainer::seedStep(uint64_t number) const {
  const uint64_t mixed = seedOf(options.seed, number);
  // at::manual_seed asks for GPUs, after which libtorch finds none that a plugin brings later.
  if (llvm::any_of(ownedSession->statistics(), [](const auto &device) { return isGpu(device.name); }))
    return at::manual_seed(mixed);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  generator.set_current_seed(mixed);
}

/// Runs the step again to find the operator that made the NaN. Weights and optimizer states are as before the
/// step; buffers (running statistics) may have changed.
Error Trainer::describeNonFinite(llvm::ArrayRef<at::Tensor> leaves, const StepResult &step) {
  const std::string message = llvm::formatv("step {0}: the loss is {1}, the norm of its gradients {2}",
                                            step.number, step.loss, step.gradientNorm);
  const auto &inputs = ownedSession->plan().signatures.front()->inputs;
  for (auto [leaf, input] : llvm::zip(leaves, inputs))
    if (leaf.is_floating_point() && !leaf.isfinite().all().item<bool>())
      return llvm::createStringError(message + "; input " + input->name + " has numbers that are not finite");
  const std::string remedy = message + "; lower the learning rate, clip gradients, or skip such steps";
  seedStep(step.number);
  auto again = ownedSession->run(leaves, {.refusesNan = true, .errorPrefix = remedy + "; "});
  return again ? llvm::createStringError(remedy) : again.takeError();
}

Expected<std::vector<NamedTensor>> Trainer::weights() {
  auto tensors = ownedSession->trainedTensors();
  if (!tensors)
    return tensors.takeError();
  // A buffer that the model writes is a state, which begins as the weight of its name.
  for (NamedTensor &state : tensors->states)
    if (llvm::any_of(ownedSession->plan().weights, [&](auto &weight) { return weight->name == state.name; }))
      tensors->weights.push_back(std::move(state));
  return std::move(tensors->weights);
}

/// The first state of the session that has no value in the checkpoint; null if there is none.
static const plan::State *missingState(const plan::Plan &plan, llvm::ArrayRef<NamedTensor> states) {
  const std::map<uint32_t, uint32_t> copies = copiedStates(plan);
  for (auto [index, state] : llvm::enumerate(plan.states))
    if (state->scope == plan::StateScope::Session && !copies.count(index) &&
        llvm::none_of(states, [&](const NamedTensor &given) { return given.name == state->name; }))
      return state.get();
  return nullptr;
}

Expected<std::vector<NamedTensor>> Trainer::checkpoint() {
  auto tensors = ownedSession->trainedTensors();
  if (!tensors)
    return tensors.takeError();
  std::vector<NamedTensor> all{{kSteps.str(), at::scalar_tensor(int64_t(completed), at::kLong)}};
  for (NamedTensor &weight : tensors->weights)
    all.push_back({(kWeightPrefix + weight.name).str(), std::move(weight.tensor)});
  for (NamedTensor &state : tensors->states)
    all.push_back({(kStatePrefix + state.name).str(), std::move(state.tensor)});
  return all;
}

Error Trainer::restore(llvm::ArrayRef<NamedTensor> checkpoint) {
  return catching([&] { return restoreEntries(checkpoint); });
}

Error Trainer::restoreEntries(llvm::ArrayRef<NamedTensor> checkpoint) {
  llvm::StringSet<> names;
  for (const NamedTensor &entry : checkpoint)
    if (!names.insert(entry.name).second)
      return llvm::createStringError("found '" + entry.name +
                                     "' twice, expected a checkpoint of cleave train");
  TrainedTensors tensors;
  std::optional<int64_t> steps;
  for (const NamedTensor &entry : checkpoint) {
    llvm::StringRef name = entry.name;
    if (name.consume_front(kWeightPrefix))
      tensors.weights.push_back({name.str(), entry.tensor});
    else if (name.consume_front(kStatePrefix))
      tensors.states.push_back({name.str(), entry.tensor});
    else if (name == kSteps && entry.tensor.scalar_type() == at::kLong && entry.tensor.numel() == 1)
      steps = entry.tensor.item<int64_t>();
    else
      return llvm::createStringError("found '" + name +
                                     "', expected weights, states and steps of a checkpoint");
  }
  if (!steps || *steps < 0)
    return llvm::createStringError("found no number of steps, expected a checkpoint of cleave train");
  if (const plan::State *missing = *steps > 0 ? missingState(ownedSession->plan(), tensors.states) : nullptr)
    return llvm::createStringError("state '" + missing->name +
                                   "' is missing, expected a checkpoint of this plan");
  if (Error error = ownedSession->restore(tensors))
    return error;
  completed = *steps;
  return Error::success();
}

} // namespace cleave::runtime
