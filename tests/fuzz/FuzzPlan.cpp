//===- FuzzPlan.cpp - Plans from anyone -----------------------------------===//
//
// A case is the bytes of a plan.fb. As it is, only what Cleave wrote may pass. With its header made to fit,
// it is refused, or it is a plan like any other: it is written as it was read, shown, and run to its end.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "runtime/base/DTypes.h"
#include "runtime/session/Session.h"
#include "tests/fuzz/Fuzz.h"
#include "tests/fuzz/PlanMutator.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tests/unit/runtime/TestModels.h"
#include "tools/cleave/inspect/Inspect.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>

namespace cleave::fuzz {

using plan::Digest;
using runtime::Session;

static constexpr size_t kHeaderBytes = 64;
static const std::string kFolders[] = {"two-stages", "two-layers", "loop", "training", "optimizer"};

//===- Seeds --------------------------------------------------------------===//

/// A loop whose body has a branch, a vjp, lists, sizes and a dict.
static void writeLoop(const std::string &folder) {
  using plan::InstructionKind;
  using namespace runtime;
  PlanWriter writer({0});
  writer.symbol("n", 3);
  writer.input("x", tensorType(plan::DType::Float, {-1, 4}));
  StageWriter &stage = writer.stage(0);
  plan::Constant yes = integer(1);
  yes.kind = plan::ConstantKind::Bool;
  uint32_t x = stage.input(0), always = stage.constant(yes), one = stage.constant(integer(1));
  uint32_t zero = stage.constant(integer(0)), nothing = stage.constant(none());
  uint32_t body = stage.block(2, [&](Slots params) {
    uint32_t sum = stage.call("aten::sum", {params[1], nothing}, "body");
    uint32_t condition = stage.call("aten::Bool.Tensor", {stage.call("aten::gt.Scalar", {sum, zero})});
    uint32_t then =
        stage.block(0, [&](Slots) { return Slots{stage.call("aten::neg", {params[1]}, "body.then")}; });
    uint32_t otherwise = stage.block(
        0, [&](Slots) { return Slots{stage.call("aten::add.Tensor", {params[1], x, one}, "body.else")}; });
    return Slots{always, stage.emit(InstructionKind::If, {condition}, 1, {then, otherwise})[0]};
  });
  uint32_t result = stage.emit(InstructionKind::Loop, {stage.constant(integer(3)), always, x}, 1, {body})[0];
  uint32_t sine = stage.block(1, [&](Slots params) { return Slots{stage.call("aten::sin", {params[0]})}; });
  result = stage.emit(InstructionKind::Vjp, {x, result}, 2, {sine})[0];
  uint32_t shape = stage.list("int", {stage.size(plan::symbolDim(0)), stage.constant(integer(4))});
  uint32_t viewed = stage.call("aten::reshape", {result, shape});
  uint32_t joined = stage.call("aten::cat", {stage.list("Tensor", {viewed, x}), zero});
  Slots parts = stage.emit(InstructionKind::Unpack,
                           {stage.call("aten::chunk", {joined, stage.constant(integer(2)), zero})}, 2);
  uint32_t key = stage.constant(text("a"));
  uint32_t dict = stage.emit(InstructionKind::Dict, {key, parts[0]}, 1, {}, "str, Tensor")[0];
  stage.output(stage.call("aten::__getitem__.Dict_str", {dict, key}));
  writer.output("y", 0, 0);
  writer.write(folder);
}

std::vector<std::string> seeds() {
  // Equal weights each time.
  at::manual_seed(0);
  for (const std::string &folder : kFolders) {
    llvm::sys::fs::remove_directories(folder);
    llvm::sys::fs::create_directory(folder);
  }
  plan::writeTwoStagePlan(kFolders[0]);
  runtime::TwoLayers layers;
  layers.writer.splitBatch(2);
  layers.writer.write(kFolders[1]);
  writeLoop(kFolders[2]);
  plan::writePlan(kFolders[3], plan::makeTrainingPlan());
  plan::writePlan(kFolders[4], plan::makeOptimizerPlan());
  std::vector<std::string> plans;
  for (const std::string &folder : kFolders)
    plans.push_back(plan::readFile(folder + "/" + plan::kPlanFileName));
  return plans;
}

//===- Cases --------------------------------------------------------------===//

/// The header that `encode` would write.
static std::vector<uint8_t> sealed(llvm::ArrayRef<uint8_t> bytes) {
  static const std::vector<uint8_t> header = [] {
    std::vector<uint8_t> whole = plan::encode(*plan::makeTwoStagePlan());
    whole.resize(kHeaderBytes);
    return whole;
  }();
  std::vector<uint8_t> result = header;
  llvm::append_range(result, bytes.drop_front(std::min(kHeaderBytes, bytes.size())));
  llvm::ArrayRef<uint8_t> payload = llvm::ArrayRef(result).drop_front(kHeaderBytes);
  llvm::support::endian::write64le(&result[16], payload.size());
  llvm::copy(plan::checksum(payload), result.begin() + 32);
  return result;
}

/// Small inputs that fit the signature.
static std::vector<at::Tensor> inputsOf(const plan::Signature &signature) {
  std::vector<int64_t> sizes(signature.symbols.size(), 3);
  std::vector<at::Tensor> inputs;
  for (const auto &input : signature.inputs) {
    std::vector<int64_t> shape;
    for (const auto &dim : input->type->dims)
      shape.push_back(std::clamp<int64_t>(plan::evaluate(*dim, sizes).value_or(3), 0, 64));
    inputs.push_back(at::ones(shape, runtime::scalarTypeOf(input->type->dtype).value_or(at::kFloat)));
  }
  return inputs;
}

/// Runs the plan beside the shards that it names, if they are any of ours.
static bool run(llvm::ArrayRef<uint8_t> bytes) {
  const auto owned = llvm::cantFail(plan::decode(bytes, "plan.fb"));
  const plan::Plan &plan = *owned;
  for (const std::string &folder : kFolders) {
    if (llvm::errorToBool(plan::openShards(plan, folder).takeError()))
      continue;
    plan::writeFile(folder + "/" + plan::kPlanFileName, textOf(bytes));
    runtime::SessionOptions options;
    options.timeout = std::chrono::seconds(1);
    auto session = Session::open(folder, options);
    if (!session)
      return noteOutcome(plan::messageOf(session.takeError())), true;
    noteOutcome("run: " + plan::messageOf((*session)->run(inputsOf(*plan.signatures[0]))));
    return true;
  }
  return false;
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  static const std::vector<std::string> originals = seeds();
  auto asItIs = plan::decode(bytes, "plan.fb");
  promise(bool(asItIs) == llvm::is_contained(originals, textOf(bytes).str()),
          "a plan that Cleave did not write passes");
  llvm::consumeError(asItIs.takeError());

  std::vector<uint8_t> forged = sealed(bytes);
  auto plan = plan::decode(forged, "plan.fb");
  if (!plan)
    return llvm::consumeError(plan.takeError()), false;
  std::vector<uint8_t> written = plan::encode(**plan);
  auto again = plan::decode(written, "plan.fb");
  promise(bool(again) && plan::encode(**again) == written, "a plan is not written as it was read");
  llvm::raw_null_ostream nowhere;
  const plan::LoadedPlan loaded{std::move(*again), {}};
  printText(nowhere, loaded, "fuzz");
  printHtml(nowhere, loaded, "fuzz", forecastOf(*loaded.plan, "fuzz"));
  return inChild(forged, run);
}

} // namespace cleave::fuzz

/// Half of the mutations are libFuzzer's, of bytes; half change numbers and lists of the tables.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  using namespace cleave::fuzz;
  Dice dice(seed);
  if (size > kHeaderBytes && dice.below(2) && mutateTables({data + kHeaderBytes, size - kHeaderBytes}, dice))
    return size;
  return LLVMFuzzerMutate(data, size, most);
}
