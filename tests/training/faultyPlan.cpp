// Puts a fault into a plan that trains: faultyPlan PLAN.fb KIND SEED OUT.fb. KIND is an index; the seed
// chooses the place. Prints what was done. The status is 2 where the plan has no place for the fault.
//
// faultyPlan PLAN.fb die STAGE,PHASE,CALL OUT.fb: the first rank of the stage ends its process as it runs
// the phase's program for the CALL-th time, by the operator of tests/e2e/dying_operator.cpp.
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdio>
#include <optional>
#include <random>

using namespace cleave;
using plan::Instruction;
using plan::InstructionKind;
using plan::Phase;
using plan::Program;

namespace {

using Instructions = std::vector<std::unique_ptr<Instruction>>;

Instructions &instructionsOf(Program &program) { return program.blocks.front()->instructions; }

/// A place in the programs of a stage and phase, which are alike on all tensor-parallel ranks.
struct Place {
  uint32_t stage;
  Phase phase;
  size_t index;
};

class Faults {
public:
  Faults(plan::Plan &plan, unsigned seed) : plan(plan), dice(seed) {}

  /// What was done; nothing if there is no place for it.
  std::optional<std::string> put(unsigned kind) {
    using Fault = std::optional<std::string> (Faults::*)();
    const Fault all[] = {&Faults::forgetSum,       &Faults::sumTwice,     &Faults::forgetAccumulation,
                         &Faults::accumulateTwice, &Faults::forgetReduce, &Faults::swapStash,
                         &Faults::swapGradients,   &Faults::forgetUpdate, &Faults::swapShards,
                         &Faults::swapUpdates,     &Faults::swapReceives, &Faults::swapSums};
    return kind < std::size(all) ? (this->*all[kind])() : std::nullopt;
  }

  /// Ends the process of the first rank of `stage` in a call of its program of `phase`.
  std::optional<std::string> insertExit(uint32_t stage, llvm::StringRef phase, int64_t call) {
    for (auto &program : plan.programs) {
      if (program->stage != stage || program->tp_rank != 0 ||
          phase != plan::wire::EnumNamePhase(program->phase))
        continue;
      auto number = std::make_unique<plan::SlotConstant>();
      number->slot = program->slots++;
      number->value = std::make_unique<plan::Constant>();
      number->value->kind = plan::ConstantKind::Int;
      number->value->integer = call;
      auto death = std::make_unique<Instruction>();
      death->kind = InstructionKind::Call;
      death->op = operatorNamed("cleave_test::die");
      death->operands = {number->slot};
      death->results = death->releases = {program->slots++};
      program->constants.push_back(std::move(number));
      Instructions &instructions = instructionsOf(*program);
      instructions.insert(instructions.begin() + program->setup, std::move(death));
      return ("rank 0 of stage " + llvm::Twine(stage) + " ends its process in " + phase).str();
    }
    return std::nullopt;
  }

private:
  template <typename T> T &chosen(std::vector<T> &places) { return places[dice() % places.size()]; }

  std::vector<Program *> programsAt(const Place &place) {
    std::vector<Program *> found;
    for (auto &program : plan.programs)
      if (program->stage == place.stage && program->phase == place.phase)
        found.push_back(program.get());
    return found;
  }

  /// Where rank 0 of a stage has such an instruction.
  std::optional<Place> find(llvm::function_ref<bool(const Program &, const Instruction &)> fits) {
    std::vector<Place> places;
    for (auto &program : plan.programs)
      if (program->tp_rank == 0)
        for (auto [index, instruction] : llvm::enumerate(instructionsOf(*program)))
          if (fits(*program, *instruction))
            places.push_back({program->stage, program->phase, index});
    return places.empty() ? std::nullopt : std::optional(chosen(places));
  }

  std::string describe(const char *what, const Place &place) {
    return std::string(what) + " in " + plan::wire::EnumNamePhase(place.phase) + " of stage " +
           std::to_string(place.stage) + ", instruction " + std::to_string(place.index);
  }

  uint32_t operatorNamed(const std::string &name) {
    auto found = llvm::find(plan.operators, name);
    if (found == plan.operators.end())
      found = plan.operators.insert(found, name);
    return found - plan.operators.begin();
  }

  bool isSum(const Instruction &instruction) {
    return instruction.kind == InstructionKind::Collective &&
           llvm::StringRef(plan.operators[instruction.op]).contains("all_reduce");
  }

  std::optional<Place> findSum() {
    return find([&](const Program &, const Instruction &instruction) { return isSum(instruction); });
  }

  std::optional<std::string> forgetSum() {
    auto place = findSum();
    if (!place)
      return std::nullopt;
    for (Program *program : programsAt(*place)) {
      Instruction &sum = *instructionsOf(*program)[place->index];
      sum.kind = InstructionKind::Call;
      sum.op = operatorNamed("aten::clone");
      sum.operands.resize(1);
      auto none = std::make_unique<plan::SlotConstant>();
      none->slot = program->slots++;
      none->value = std::make_unique<plan::Constant>();
      sum.operands.push_back(none->slot);
      program->constants.push_back(std::move(none));
    }
    return describe("a sum over ranks is forgotten", *place);
  }

  std::optional<std::string> sumTwice() {
    auto place = findSum();
    if (!place)
      return std::nullopt;
    for (Program *program : programsAt(*place)) {
      Instructions &instructions = instructionsOf(*program);
      auto again = std::make_unique<Instruction>(*instructions[place->index]);
      const uint32_t once = again->results.front(), twice = program->slots++;
      for (size_t later = place->index + 1; later < instructions.size(); ++later) {
        std::replace(instructions[later]->operands.begin(), instructions[later]->operands.end(), once, twice);
        std::replace(instructions[later]->releases.begin(), instructions[later]->releases.end(), once, twice);
      }
      std::replace(program->outputs.begin(), program->outputs.end(), once, twice);
      again->operands.front() = once;
      again->results.front() = twice;
      again->releases = {once};
      instructions.insert(instructions.begin() + place->index + 1, std::move(again));
    }
    return describe("a sum over ranks is made twice", *place);
  }

  std::optional<Place> findAccumulation() {
    return find([](const Program &, const Instruction &instruction) {
      return instruction.kind == InstructionKind::StateAccumulate;
    });
  }

  std::optional<std::string> forgetAccumulation() {
    auto place = findAccumulation();
    if (!place)
      return std::nullopt;
    for (Program *program : programsAt(*place)) {
      Instructions &instructions = instructionsOf(*program);
      instructions.erase(instructions.begin() + place->index);
    }
    return describe("a gradient is not added to its sum", *place);
  }

  std::optional<std::string> accumulateTwice() {
    auto place = findAccumulation();
    if (!place)
      return std::nullopt;
    for (Program *program : programsAt(*place)) {
      Instructions &instructions = instructionsOf(*program);
      auto first = std::make_unique<Instruction>(*instructions[place->index]);
      first->releases.clear();
      instructions.insert(instructions.begin() + place->index, std::move(first));
    }
    return describe("a gradient is added to its sum twice", *place);
  }

  std::optional<std::string> forgetReduce() {
    if (plan.buckets.empty())
      return std::nullopt;
    const uint32_t bucket = dice() % plan.buckets.size();
    for (auto &schedule : plan.schedules)
      for (auto &rank : schedule->ranks)
        llvm::erase_if(rank->actions, [&](const auto &action) {
          return action->kind == plan::ActionKind::Reduce && action->bucket == bucket;
        });
    return "bucket " + std::to_string(bucket) + " is not reduced";
  }

  std::optional<std::string> swapStash() {
    return swapInputs("two values of the stash are exchanged", isStash);
  }

  /// Gradients that travel between stages, or from B to W.
  std::optional<std::string> swapGradients() { return swapInputs("two gradients are exchanged", isGradient); }

  /// Exchanges two inputs of a backward program that have one type.
  std::optional<std::string> swapInputs(const char *what,
                                        llvm::function_ref<bool(const Program &, size_t)> fits) {
    std::vector<std::pair<Place, std::pair<size_t, size_t>>> places;
    for (auto &program : plan.programs)
      for (size_t a = 0; program->tp_rank == 0 && a < program->inputs.size(); ++a)
        for (size_t b = a + 1; b < program->inputs.size(); ++b)
          if (program->phase != Phase::Forward && fits(*program, a) && fits(*program, b) &&
              haveSameType(*program, a, b))
            places.push_back({{program->stage, program->phase, 0}, {a, b}});
    if (places.empty())
      return std::nullopt;
    auto [place, inputs] = chosen(places);
    for (Program *program : programsAt(place))
      std::swap(program->inputs[inputs.first]->slot, program->inputs[inputs.second]->slot);
    return describe(what, place) + ": inputs " + std::to_string(inputs.first) + ", " +
           std::to_string(inputs.second);
  }

  static bool isStash(const Program &program, size_t input) {
    return program.inputs[input]->source == plan::Source::Stage &&
           program.inputs[input]->stage == program.stage && program.inputs[input]->phase == Phase::Forward;
  }

  static const plan::TensorType *typeOf(const Program &program, uint32_t slot) {
    for (auto &type : program.types)
      if (type->slot == slot)
        return type->type.get();
    return nullptr;
  }

  static bool haveSameType(const Program &program, size_t a, size_t b) {
    const plan::TensorType *first = typeOf(program, program.inputs[a]->slot),
                           *second = typeOf(program, program.inputs[b]->slot);
    return first && second && first->dtype == second->dtype && first->dims.size() > 1 &&
           areSame(first->dims, second->dims);
  }

  static bool areSame(llvm::ArrayRef<std::unique_ptr<plan::DimExpr>> a,
                      llvm::ArrayRef<std::unique_ptr<plan::DimExpr>> b) {
    return llvm::equal(a, b, [](const auto &one, const auto &other) {
      return plan::asConstant(*one) == plan::asConstant(*other) &&
             plan::asSymbol(*one) == plan::asSymbol(*other);
    });
  }

  static bool isGradient(const Program &program, size_t input) {
    return program.inputs[input]->source == plan::Source::Stage &&
           program.inputs[input]->phase == Phase::BackwardInput;
  }

  std::optional<Place> findUpdate() {
    return find([](const Program &, const Instruction &instruction) {
      return instruction.kind == InstructionKind::WeightUpdate;
    });
  }

  std::optional<std::string> forgetUpdate() {
    auto place = findUpdate();
    if (!place)
      return std::nullopt;
    for (Program *program : programsAt(*place)) {
      Instructions &instructions = instructionsOf(*program);
      instructions.erase(instructions.begin() + place->index);
    }
    return describe("a weight is not updated", *place);
  }

  std::optional<std::string> swapShards() {
    std::vector<plan::Weight *> weights;
    for (auto &weight : plan.weights)
      if (weight->trainable && weight->shards.size() > 1 && !weight->shards[0]->ranges.empty() &&
          weight->shards[0]->shape == weight->shards[1]->shape)
        weights.push_back(weight.get());
    if (weights.empty())
      return std::nullopt;
    plan::Weight &weight = *chosen(weights);
    std::swap(weight.shards[0]->ranges, weight.shards[1]->ranges);
    return "the shards of " + weight.name + " are exchanged";
  }

  /// Two weights of the same shape, each updated by the gradient of the other.
  std::optional<std::string> swapUpdates() {
    auto pair = findPair([&](const Instruction &a, const Instruction &b) {
      return a.kind == InstructionKind::WeightUpdate && b.kind == InstructionKind::WeightUpdate &&
             plan.weights[a.op]->shape == plan.weights[b.op]->shape;
    });
    if (!pair)
      return std::nullopt;
    for (Program *program : programsAt(pair->first)) {
      Instructions &instructions = instructionsOf(*program);
      std::swap(instructions[pair->first.index]->op, instructions[pair->second]->op);
      std::swap(instructions[pair->first.index]->optimizer, instructions[pair->second]->optimizer);
    }
    return describe("the gradients of two weights are exchanged", pair->first);
  }

  /// The values of one micro-batch are taken for those of another: a stash that is late.
  std::optional<std::string> swapReceives() {
    auto &ranks = plan.schedules.front()->ranks;
    std::vector<std::pair<size_t, size_t>> places;
    auto &first = ranks[dice() % ranks.size()];
    for (size_t a = 0; a < first->actions.size(); ++a)
      for (size_t b = a + 1; b < first->actions.size(); ++b) {
        const plan::Action &one = *first->actions[a], &other = *first->actions[b];
        if ((one.kind == plan::ActionKind::Recv || one.kind == plan::ActionKind::RecvGrad) &&
            other.kind == one.kind && other.stage == one.stage && other.peer_stage == one.peer_stage &&
            other.microbatch == one.microbatch + 1)
          places.push_back({a, b});
      }
    if (places.empty())
      return std::nullopt;
    const auto [a, b] = chosen(places);
    const uint32_t stage = first->actions[a]->stage;
    for (auto &rank : ranks)
      if (llvm::is_contained(plan.stages[stage]->ranks, rank->rank))
        std::swap(rank->actions[a]->microbatch, rank->actions[b]->microbatch);
    return "stage " + std::to_string(stage) + " takes the values of two micro-batches for each other";
  }

  std::optional<std::string> swapSums() {
    auto pair = findPair([&](const Instruction &a, const Instruction &b) {
      return a.kind == InstructionKind::StateAccumulate && b.kind == InstructionKind::StateAccumulate &&
             haveSameSizes(*plan.states[a.op], *plan.states[b.op]);
    });
    if (!pair)
      return std::nullopt;
    for (Program *program : programsAt(pair->first))
      std::swap(instructionsOf(*program)[pair->first.index]->op, instructionsOf(*program)[pair->second]->op);
    return describe("two gradients are added to each other's sum", pair->first);
  }

  /// Two instructions of a program: the place of the first, and the index of the second.
  std::optional<std::pair<Place, size_t>>
  findPair(llvm::function_ref<bool(const Instruction &, const Instruction &)> fits) {
    std::vector<std::pair<Place, size_t>> places;
    for (auto &program : plan.programs) {
      Instructions &instructions = instructionsOf(*program);
      for (size_t a = 0; program->tp_rank == 0 && a < instructions.size(); ++a)
        for (size_t b = a + 1; b < instructions.size(); ++b)
          if (fits(*instructions[a], *instructions[b]))
            places.push_back({{program->stage, program->phase, a}, b});
    }
    return places.empty() ? std::nullopt : std::optional(chosen(places));
  }

  static bool haveSameSizes(const plan::State &a, const plan::State &b) {
    return areSame(a.type->dims, b.type->dims) && a.shards.size() == b.shards.size();
  }

  plan::Plan &plan;
  std::mt19937 dice;
};

int fail(const std::string &message, int status = 1) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return status;
}

} // namespace

int main(int count, char **arguments) {
  unsigned kind = 0, seed = 0, stage = 0, call = 0;
  const bool dies = count == 5 && llvm::StringRef(arguments[2]) == "die";
  llvm::SmallVector<llvm::StringRef> place;
  if (dies)
    llvm::StringRef(arguments[3]).split(place, ',');
  if (count != 5 ||
      (dies ? place.size() != 3 || place[0].getAsInteger(10, stage) || place[2].getAsInteger(10, call)
            : llvm::StringRef(arguments[2]).getAsInteger(10, kind) ||
                  llvm::StringRef(arguments[3]).getAsInteger(10, seed)))
    return fail("usage: faultyPlan PLAN.fb KIND SEED OUT.fb, or PLAN.fb die STAGE,PHASE,CALL OUT.fb");
  auto file = llvm::MemoryBuffer::getFile(arguments[1]);
  if (!file)
    return fail(std::string(arguments[1]) + ": " + file.getError().message());
  auto decoded = plan::decode(llvm::arrayRefFromStringRef((*file)->getBuffer()), arguments[1]);
  if (!decoded)
    return fail(llvm::toString(decoded.takeError()));
  Faults faults(**decoded, seed);
  const std::optional<std::string> done = dies ? faults.insertExit(stage, place[1], call) : faults.put(kind);
  if (!done)
    return fail("no place", 2);
  const auto bytes = plan::encode(**decoded);
  std::error_code error;
  llvm::raw_fd_ostream out(arguments[4], error);
  if (error)
    return fail(std::string(arguments[4]) + ": " + error.message());
  out.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  std::puts(done->c_str());
  return 0;
}
