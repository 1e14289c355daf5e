//===- InspectText.cpp - A plan as people read it -------------------------===//
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/ValidateParts.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/inspect/Inspect.h"
#include "tools/cleave/text/Candidates.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

namespace cleave {

using namespace plan;
using llvm::formatv;

/// Most modules that a row names; the rest is counted.
static constexpr size_t kShownModules = 3;

//===- At a glance --------------------------------------------------------===//

static std::string balanceText(const Plan &plan) {
  std::optional<Balance> balance = balanceOf(plan);
  return balance ? formatv("{0:f2} (slowest stage / mean)", balance->ratio()).str() : "not predicted";
}

static void printGlance(llvm::raw_ostream &stream, const LoadedPlan &loaded, llvm::StringRef name) {
  const Plan &plan = *loaded.plan;
  const Schedule &schedule = scheduleOf(plan, 0);
  std::vector<int64_t> bytes = weightBytesOfStages(plan);
  TextTable table({Align::Left, Align::Left});
  table.add({"mesh", meshText(*plan.mesh)});
  table.add(
      {"schedule", formatv("{0}, {1}, {2}", schedule.name, microbatchesText(plan, schedule.microbatches),
                           count(schedule.slices, "slice"))});
  table.add({"weights", formatv("{0}, {1} MB over the stages{2}", count(plan.weights.size(), "tensor"),
                                megabytes(std::accumulate(bytes.begin(), bytes.end(), int64_t{0})),
                                plan.mesh->tp > 1   ? " of a tensor-parallel rank"
                                : plan.mesh->dp > 1 ? " of a data-parallel rank"
                                                    : "")});
  if (plan.precision != DType::Unknown)
    table.add({"products", nameOf(plan.precision).str()});
  table.add({"balance", balanceText(plan)});
  table.add({"made by", plan.producer});
  table.add({"checksum", toHex(loaded.rootChecksum)});
  stream << printable(name) << "\n";
  table.print(stream, "  ");
}

//===- Stages -------------------------------------------------------------===//

static std::string modulesText(const Stage &stage) {
  llvm::ArrayRef<std::string> paths = stage.module_paths;
  std::string text = llvm::join(paths.take_front(kShownModules), ", ");
  return paths.size() > kShownModules ? formatv("{0} +{1}", text, paths.size() - kShownModules).str() : text;
}

/// `1.57 MB from 0, 0.02 MB from 1`.
static std::string receivesText(const Plan &plan, uint32_t stage) {
  std::vector<int64_t> traced = tracedSizes(*plan.signatures[0]);
  std::vector<std::string> parts;
  for (const Transfer &transfer : transfers(plan, 0))
    if (transfer.to == stage)
      parts.push_back(
          formatv("{0} MB from {1}", megabytes(bytesOf(plan, 0, transfer, traced)), transfer.from));
  return parts.empty() ? "-" : llvm::join(parts, ", ");
}

static void printStages(llvm::raw_ostream &stream, const Plan &plan) {
  TextTable table({Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right,
                   Align::Left, Align::Left});
  table.add({"stage", "device", "ops", "weights MB", "predicted ms", "peak MB", "receives", "modules"});
  std::vector<int64_t> weightBytes = weightBytesOfStages(plan);
  for (const auto &stage : plan.stages) {
    const Prediction *prediction = predictionOf(plan, stage->index);
    table.add({std::to_string(stage->index), devicesText(plan, *stage), std::to_string(stage->ops),
               megabytes(weightBytes[stage->index]), prediction ? milliseconds(prediction->seconds) : "-",
               prediction ? megabytes(prediction->peak_bytes) : "-", receivesText(plan, stage->index),
               modulesText(*stage)});
  }
  stream << "\n";
  table.print(stream);
}

//===- Inputs, outputs, notes ---------------------------------------------===//

static void printSignature(llvm::raw_ostream &stream, const Signature &signature) {
  stream << "\n" << signature.name << "\n";
  TextTable table({Align::Left, Align::Left, Align::Left, Align::Left});
  for (const auto &input : signature.inputs)
    table.add({"takes", input->name, typeText(signature, *input->type), input->role});
  for (const auto &output : signature.outputs)
    table.add(
        {"gives", output->name, typeText(signature, *output->type), formatv("stage {0}", output->stage)});
  table.print(stream, "  ");
  if (!signature.symbols.empty())
    stream << "  traced with " << sizesText(signature, tracedSizes(signature)) << "\n";
  if (const std::string sizes = witnessedText(signature); !sizes.empty())
    stream << "  compared with the module at " << sizes << "\n";
}

static void printTiedWeights(llvm::raw_ostream &stream, const Plan &plan) {
  TextTable table({Align::Left, Align::Left});
  for (auto [weight, stages] : llvm::zip(plan.weights, stagesOfWeights(plan)))
    if (!weight->aliases.empty())
      table.add({weight->name + " = " + llvm::join(weight->aliases, " = "), stagesText(stages)});
  stream << "\ntied weights\n";
  table.print(stream, "  ");
}

/// The states that are sums over a step, or the others.
static void printStates(llvm::raw_ostream &stream, const Plan &plan, bool areSums, llvm::StringRef title) {
  static const Signature none{};
  TextTable table({Align::Left, Align::Left, Align::Left});
  bool isEmpty = true;
  for (const auto &state : plan.states)
    if ((state->scope == StateScope::Step) == areSums) {
      isEmpty = false;
      table.add({state->name, state->type->ranked ? typeText(none, *state->type) : "?",
                 formatv("stage {0}", state->stage)});
    }
  if (isEmpty)
    return;
  stream << "\n" << title << "\n";
  table.print(stream, "  ");
}

static void printNotes(llvm::raw_ostream &stream, const Plan &plan) {
  stream << "\nnotes\n";
  for (const auto &note : plan.notes) {
    std::string where = placeText(*note);
    stream << "  " << note->kind << ": " << note->text << (where.empty() ? "" : " (" + where + ")") << "\n";
  }
}

void printText(llvm::raw_ostream &stream, const LoadedPlan &loaded, llvm::StringRef name) {
  const Plan &plan = *loaded.plan;
  printGlance(stream, loaded, name);
  printStages(stream, plan);
  if (plan.mesh->tp > 1)
    printSharding(stream, plan);
  printCandidates(stream, plan.candidates);
  for (const auto &signature : plan.signatures)
    printSignature(stream, *signature);
  if (llvm::any_of(plan.weights, [](const auto &weight) { return !weight->aliases.empty(); }))
    printTiedWeights(stream, plan);
  printStates(stream, plan, /*areSums=*/false, "kept from call to call");
  printStates(stream, plan, /*areSums=*/true, "summed over the micro-batches of a step");
  if (!plan.notes.empty())
    printNotes(stream, plan);
}

} // namespace cleave
