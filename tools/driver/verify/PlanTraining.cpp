//===- PlanTraining.cpp ---------------------------------------------------===//
#include "tools/driver/verify/PlanTraining.h"
#include "codegen/plan/TrainingStep.h"
#include "ir/autograd/AddOptimizer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <map>
#include <set>
#include <tuple>

namespace cleave {

static llvm::Error refuse(const char *what) {
  return llvm::createStringError(llvm::Twine("found a plan ") + what +
                                 ", expected a plan that cleave compile --train has made");
}

static bool hasSameOptions(const plan::OptimizerConfig &a, const plan::OptimizerConfig &b) {
  auto optionsOf = [](const plan::OptimizerConfig &config) {
    return std::tuple(config.optimizer, config.weight_decay, config.momentum, config.beta1, config.beta2,
                      config.epsilon, config.nesterov);
  };
  return optionsOf(a) == optionsOf(b);
}

static void forEachUpdate(const plan::Plan &plan, llvm::function_ref<void(const plan::Instruction &)> use) {
  for (auto &program : plan.programs)
    if (program->phase == plan::Phase::Update)
      for (auto &block : program->blocks)
        for (auto &instruction : block->instructions)
          if (instruction->kind == plan::InstructionKind::WeightUpdate)
            use(*instruction);
}

/// Finds inputs and outputs of the step. The tree is that of the model beside the inputs that a step adds.
static bool findLeaves(const plan::Signature &signature, PlanTraining &training) {
  auto indexOf = [](const auto &all, auto isWanted, size_t &index) {
    auto found = llvm::find_if(all, isWanted);
    index = found - all.begin();
    return found != all.end();
  };
  auto hasRole = [](llvm::StringRef role) { return [role](auto &input) { return input->role == role; }; };
  auto hasName = [](llvm::StringRef name) { return [name](auto &output) { return output->name == name; }; };
  training.inputTree = signature.input_tree.get();
  // Each added input wraps the former tree.
  const auto added = llvm::count_if(signature.inputs, [](auto &input) { return plan::isStepInput(*input); });
  for (int64_t i = 0; i < added; ++i) {
    const plan::Tree &tree = *training.inputTree;
    auto inner = llvm::find(tree.keys, "inputs");
    if (tree.kind != plan::TreeKind::Dict || inner == tree.keys.end())
      return false;
    training.inputTree = tree.children[inner - tree.keys.begin()].get();
  }
  return indexOf(signature.inputs, hasRole(plan::kLearningRateRole), training.learningRateInput) &&
         indexOf(signature.inputs, hasRole(plan::kStepRole), training.stepInput) &&
         indexOf(signature.outputs, hasName(plan::kLossOutput), training.lossOutput) &&
         indexOf(signature.outputs, hasName(plan::kGradNormOutput), training.gradNormOutput);
}

llvm::Expected<std::optional<PlanTraining>> trainingOf(const plan::Plan &plan) {
  PlanTraining training;
  // Several ranks update a weight, each its copy or its shard.
  std::map<uint32_t, const plan::OptimizerConfig *> known;
  bool isAlike = true;
  forEachUpdate(plan, [&](const plan::Instruction &update) {
    const plan::Weight &weight = *plan.weights[update.op];
    auto [first, isNew] = known.try_emplace(update.op, update.optimizer.get());
    if (isNew)
      training.weights.push_back({weight.name, weight.aliases, *update.optimizer});
    isAlike &= hasSameOptions(*first->second, *update.optimizer);
  });
  if (training.weights.empty()) {
    if (llvm::any_of(plan.weights, [](auto &weight) { return weight->trainable; }))
      return refuse("that trains without an optimizer");
    return std::nullopt;
  }
  if (!isAlike)
    return refuse("whose ranks update a weight with different options of the optimizer");
  if (llvm::any_of(training.weights, [&](const PlanTraining::Weight &weight) {
        return weight.optimizer.optimizer != training.weights.front().optimizer.optimizer;
      }))
    return refuse("that trains by several optimizers");
  if (plan.signatures.size() != 1 || !findLeaves(*plan.signatures.front(), training))
    return refuse("that trains with other inputs or outputs");
  if (const double clipNorm = plan.signatures.front()->clip_norm; clipNorm > 0)
    training.clipNorm = clipNorm;
  return training;
}

llvm::Error PlanTraining::setOptions(const UpdateOptions &options) {
  auto given = parseOptimizer(options.optimizer);
  if (!given)
    return given.takeError();
  std::vector<llvm::GlobPattern> exempt;
  for (const std::string &pattern : options.noDecay) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return glob.takeError();
    exempt.push_back(std::move(*glob));
  }
  auto isExempt = [&](llvm::StringRef name) {
    return llvm::any_of(exempt, [&](const llvm::GlobPattern &glob) { return glob.match(name); });
  };
  clipNorm = options.clipNorm;
  for (Weight &weight : weights) {
    plan::OptimizerConfig &config = weight.optimizer;
    config.optimizer = given->optimizer == Optimizer::Sgd    ? plan::Optimizer::Sgd
                       : given->optimizer == Optimizer::Adam ? plan::Optimizer::Adam
                                                             : plan::Optimizer::AdamW;
    config.weight_decay =
        isExempt(weight.name) || llvm::any_of(weight.aliases, isExempt) ? 0 : given->weightDecay;
    config.momentum = given->momentum;
    config.nesterov = given->nesterov;
    config.beta1 = given->beta1;
    config.beta2 = given->beta2;
    config.epsilon = given->epsilon;
  }
  return llvm::Error::success();
}

std::vector<std::string> modelStates(const plan::Plan &plan) {
  std::set<uint32_t> ofOptimizers;
  forEachUpdate(plan, [&](const plan::Instruction &update) {
    ofOptimizers.insert(update.optimizer->states.begin(), update.optimizer->states.end());
  });
  std::vector<std::string> names;
  for (auto [index, state] : llvm::enumerate(plan.states))
    if (state->scope != plan::StateScope::Step && !ofOptimizers.count(index))
      names.push_back(state->name);
  return names;
}

} // namespace cleave
