//===- PlanTraining.cpp ---------------------------------------------------===//
#include "tools/driver/verify/PlanTraining.h"
#include "ir/autograd/AddOptimizer.h"
#include "ir/autograd/StepInputs.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <set>

namespace cleave {

/// Index of grad_scale among the operands of a WeightUpdate (codegen/plan/plan.fbs).
static constexpr size_t kGradScaleOperand = 3;

static llvm::Error unknown(const char *what) {
  return llvm::createStringError(llvm::Twine("found a plan ") + what +
                                 ", expected one of compile --train; verify one that it has made");
}

static void forEachUpdate(
    const plan::Plan &plan,
    llvm::function_ref<void(const plan::Program &, const plan::Block &, const plan::Instruction &)> use) {
  for (auto &program : plan.programs)
    if (program->phase == plan::Phase::Update)
      for (auto &block : program->blocks)
        for (auto &instruction : block->instructions)
          if (instruction->kind == plan::InstructionKind::WeightUpdate)
            use(*program, *block, *instruction);
}

/// The clip norm of a grad_scale `slot`, which is max(1, (norm + 1e-6) / clipNorm), perhaps times the sum of
/// the normalizers. Goes back from `slot` to the call that makes it, from there to the call that makes its
/// first operand, and so on, up to a division by a constant: the clip norm. Gives nothing if there is none
/// among the last kMostOperations calls, or if one of the values is no result of a call in `block`.
static std::optional<double> clipNormOf(const plan::Plan &plan, const plan::Program &program,
                                        const plan::Block &block, uint32_t slot) {
  llvm::DenseMap<uint32_t, const plan::Instruction *> makers;
  for (auto &instruction : block.instructions)
    for (uint32_t result : instruction->results)
      makers[result] = instruction.get();
  llvm::DenseMap<uint32_t, const plan::Constant *> constants;
  for (auto &constant : program.constants)
    constants[constant->slot] = constant->value.get();
  constexpr int kMostOperations = 8;
  for (int i = 0; i < kMostOperations; ++i) {
    const plan::Instruction *maker = makers.lookup(slot);
    if (!maker || maker->kind != plan::InstructionKind::Call || maker->operands.empty() ||
        maker->op >= plan.operators.size())
      return std::nullopt;
    if (llvm::StringRef(plan.operators[maker->op]).starts_with("aten::div") && maker->operands.size() > 1)
      if (const plan::Constant *divisor = constants.lookup(maker->operands[1]))
        return divisor->kind == plan::ConstantKind::Int ? double(divisor->integer) : divisor->real;
    slot = maker->operands[0];
  }
  return std::nullopt;
}

static bool isNone(const plan::Program &program, uint32_t slot) {
  return llvm::any_of(program.constants, [&](auto &constant) {
    return constant->slot == slot && constant->value->kind == plan::ConstantKind::None;
  });
}

/// True if `slot` is read from a state. As a grad_scale it is the sum of the normalizers: no clipping.
static bool isReadOfState(const plan::Block &block, uint32_t slot) {
  return llvm::any_of(block.instructions, [&](auto &instruction) {
    return instruction->kind == plan::InstructionKind::StateRead &&
           llvm::is_contained(instruction->results, slot);
  });
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
  const auto added =
      llvm::count_if(signature.inputs, [](auto &input) { return isStepInputRole(input->role); });
  for (int64_t i = 0; i < added; ++i) {
    const plan::Tree &tree = *training.inputTree;
    auto inner = llvm::find(tree.keys, "inputs");
    if (tree.kind != plan::TreeKind::Dict || inner == tree.keys.end())
      return false;
    training.inputTree = tree.children[inner - tree.keys.begin()].get();
  }
  return indexOf(signature.inputs, hasRole(kLearningRateRole), training.rateInput) &&
         indexOf(signature.inputs, hasRole(kStepRole), training.stepInput) &&
         indexOf(signature.outputs, hasName("loss"), training.lossOutput) &&
         indexOf(signature.outputs, hasName("grad_norm"), training.normOutput);
}

llvm::Expected<std::optional<PlanTraining>> trainingOf(const plan::Plan &plan) {
  PlanTraining training;
  bool hasUnknownScale = false;
  // Several ranks update a weight, each its copy or its shard.
  std::set<uint32_t> known;
  forEachUpdate(plan,
                [&](const plan::Program &program, const plan::Block &block, const plan::Instruction &update) {
                  const plan::Weight &weight = *plan.weights[update.op];
                  if (known.insert(update.op).second)
                    training.weights.push_back({weight.name, weight.aliases, *update.optimizer});
                  const uint32_t scale = update.operands[kGradScaleOperand];
                  if (isNone(program, scale) || isReadOfState(block, scale))
                    return;
                  auto clipNorm = clipNormOf(plan, program, block, scale);
                  hasUnknownScale |= !clipNorm || (training.clipNorm && training.clipNorm != clipNorm);
                  training.clipNorm = clipNorm;
                });
  if (training.weights.empty()) {
    if (llvm::any_of(plan.weights, [](auto &weight) { return weight->trainable; }))
      return unknown("that trains without an optimizer");
    return std::nullopt;
  }
  if (hasUnknownScale)
    return unknown("whose gradient scale is not a clipped norm");
  if (llvm::any_of(training.weights, [&](const PlanTraining::Weight &weight) {
        return weight.optimizer.optimizer != training.weights.front().optimizer.optimizer;
      }))
    return unknown("that trains by several optimizers");
  if (plan.signatures.size() != 1 || !findLeaves(*plan.signatures.front(), training))
    return unknown("that trains with other inputs or outputs");
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
  forEachUpdate(plan, [&](const plan::Program &, const plan::Block &, const plan::Instruction &update) {
    ofOptimizers.insert(update.optimizer->states.begin(), update.optimizer->states.end());
  });
  std::vector<std::string> names;
  for (auto [index, state] : llvm::enumerate(plan.states))
    if (state->scope != plan::StateScope::Step && !ofOptimizers.count(index))
      names.push_back(state->name);
  return names;
}

} // namespace cleave
