// Random models, cut at random into stages, ranks and micro-batches, give what they give uncut.
#include "codegen/EmitPlan.h"
#include "codegen/Shards.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "partitioner/memory/CutMemoryPredictor.h"
#include "passes/Passes.h"
#include "runtime/session/Session.h"
#include "tests/unit/partitioner/RandomGraph.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// A function of `x: f64[batch, 8]` in a random DAG of operators; every value is of that type between the
/// lines that an operator needs. Operations have random stages, ascending.
class RandomModel {
public:
  /// \param mayMix  whether some operations may take one sample's numbers to another.
  RandomModel(Dice &dice, uint32_t stages, bool mayMix) : dice(dice) {
    const uint32_t steps = stages + dice.below(12);
    for (uint32_t step = 0; step < steps; ++step) {
      // The first operations are one a stage, so that none is empty.
      stage = step * stages / steps;
      const bool mixesHere = mayMix && dice.below(12) == 0;
      mixes |= mixesHere;
      values.push_back(mixesHere ? addMixingStep(dice.below(7)) : addStep(dice.below(8)));
    }
    const uint32_t outputs = 1 + dice.below(3);
    for (uint32_t i = 0; i < outputs; ++i)
      results.push_back(values[values.size() - 1 - dice.below(std::min<size_t>(values.size(), 4))]);
  }

  std::string text(uint32_t stages, uint32_t ranks, uint32_t microbatches) const {
    const std::string count = std::to_string(microbatches);
    std::string attributes =
        "cleave.symbols = {batch = 6}, cleave.schedule = #cleave.schedule<pipeline_ranks = " +
        std::to_string(ranks) + ", microbatches = " + count +
        ", batch = \"batch\">, cleave.cut = #cleave.cut<seconds = [" + repeated("0.0", stages) +
        "], recv_bytes = [" + repeated("0", stages) +
        "]>, cleave.input_tree = [\"tuple\", 0], cleave.output_tree = [\"tuple\"";
    std::string types, names, arguments;
    for (size_t i = 0; i < results.size(); ++i) {
      attributes += ", " + std::to_string(i);
      types += (i ? ", " : "") + kType + " {cleave.name = \"y" + std::to_string(i) + "\"}";
      names += (i ? ", " : "") + results[i];
      arguments += (i ? ", " : "") + kType;
    }
    return "func.func @forward(%x: " + kType + " {cleave.name = \"x\"}) -> (" + types + ") attributes {" +
           attributes + "]} {\n" + head + body + "  return " + names + " : " + arguments + "\n}\n";
  }

  std::vector<std::string> weights;
  /// Whether an operation takes one sample's numbers to another.
  bool mixes = false;

private:
  static std::string repeated(const std::string &item, uint32_t count) {
    std::string text = item;
    for (uint32_t i = 1; i < count; ++i)
      text += ", " + item;
    return text;
  }

  std::string name() { return "%v" + std::to_string(count++); }
  const std::string &any() { return values.empty() ? kInput : values[dice.below(values.size())]; }

  std::string constant(const std::string &value, const std::string &type) {
    std::string result = name();
    head += "  " + result + " = cleave.constant(" + value + ") : " + type + "\n";
    return result;
  }
  std::string integer(int64_t value) { return constant(std::to_string(value) + " : i64", "i64"); }

  /// A call of `op`; operands and types alternate.
  std::string call(const std::string &op, const std::vector<std::pair<std::string, std::string>> &operands,
                   const std::string &type) {
    std::string result = name(), names, types;
    for (auto &[operand, operandType] : operands) {
      names += (names.empty() ? "" : ", ") + operand;
      types += (types.empty() ? "" : ", ") + operandType;
    }
    body += "  " + result + " = " + op + "(" + names + ") {cleave.stage_index = " + std::to_string(stage) +
            " : i64} : (" + types + ") -> " + type + "\n";
    return result;
  }

  std::string weight(const std::string &shape) {
    weights.push_back("w" + std::to_string(weights.size()));
    std::string result = name();
    head += "  " + result + " = cleave.param \"" + weights.back() + "\" {role = \"parameter\"} : tensor<" +
            shape + "xf64>\n";
    return result;
  }

  std::string addStep(uint32_t kind) {
    const std::string none = constant("unit", "none");
    switch (kind) {
    case 0:
      return call("aten.tanh", {{any(), kType}}, kType);
    case 1:
      return call("aten.add.Tensor", {{any(), kType}, {any(), kType}, {integer(1), "i64"}}, kType);
    case 2:
      return call("aten.linear", {{any(), kType}, {weight("8x8"), "tensor<8x8xf64>"}, {none, "none"}}, kType);
    case 3:
      return call("aten.softmax.int", {{any(), kType}, {integer(-1), "i64"}, {none, "none"}}, kType);
    case 4: {
      // Through a shape in which the batch is part of a dimension.
      std::string sizes = constant("[-1, 4]", "!cleave.list<i64>"),
                  back = constant("[-1, 8]", "!cleave.list<i64>");
      std::string halves = call("aten.reshape", {{any(), kType}, {sizes, "!cleave.list<i64>"}}, kHalves);
      std::string soft =
          call("aten.softmax.int", {{halves, kHalves}, {integer(-1), "i64"}, {none, "none"}}, kHalves);
      return call("aten.reshape", {{soft, kHalves}, {back, "!cleave.list<i64>"}}, kType);
    }
    case 5: {
      std::string shape = constant("[8]", "!cleave.list<i64>"), epsilon = constant("1.0e-5 : f64", "f64");
      std::string flag = constant("false", "i1");
      return call("aten.layer_norm",
                  {{any(), kType},
                   {shape, "!cleave.list<i64>"},
                   {weight("8"), "tensor<8xf64>"},
                   {none, "none"},
                   {epsilon, "f64"},
                   {flag, "i1"}},
                  kType);
    }
    case 6:
      // A value without the batch is sent as well.
      return call("aten.mul.Tensor",
                  {{any(), kType},
                   {call("aten.exp", {{weight("8"), "tensor<8xf64>"}}, "tensor<8xf64>"), "tensor<8xf64>"}},
                  kType);
    default: {
      std::string dims = constant("[1]", "!cleave.list<i64>"), keep = constant("true", "i1");
      std::string sum =
          call("aten.sum.dim_IntList",
               {{any(), kType}, {dims, "!cleave.list<i64>"}, {keep, "i1"}, {none, "none"}}, kColumn);
      return call("aten.sub.Tensor", {{any(), kType}, {sum, kColumn}, {integer(1), "i64"}}, kType);
    }
    }
  }

  std::string addMixingStep(uint32_t kind) {
    const std::string none = constant("unit", "none"), zero = integer(0), one = integer(1);
    const std::string list = "!cleave.list<i64>", keep = constant("true", "i1"),
                      first = constant("[0]", list);
    switch (kind) {
    case 0: {
      std::string mean =
          call("aten.mean.dim", {{any(), kType}, {first, list}, {keep, "i1"}, {none, "none"}}, kRow);
      return call("aten.sub.Tensor", {{any(), kType}, {mean, kRow}, {one, "i64"}}, kType);
    }
    case 1:
      return call("aten.flip", {{any(), kType}, {first, list}}, kType);
    case 2: {
      // Every sample attends to every other.
      std::string turned = call("aten.t", {{any(), kType}}, kTurned);
      std::string pairs = call("aten.matmul", {{any(), kType}, {turned, kTurned}}, kPairs);
      std::string soft =
          call("aten.softmax.int", {{pairs, kPairs}, {integer(-1), "i64"}, {none, "none"}}, kPairs);
      return call("aten.matmul", {{soft, kPairs}, {any(), kType}}, kType);
    }
    case 3:
      return call("aten.cumsum", {{any(), kType}, {zero, "i64"}, {none, "none"}}, kType);
    case 4:
      return call("aten.div.Scalar", {{any(), kType}, {batchSize(), "i64"}}, kType);
    case 5: {
      std::string sample =
          call("aten.select.int", {{any(), kType}, {zero, "i64"}, {zero, "i64"}}, "tensor<8xf64>");
      return call("aten.add.Tensor", {{any(), kType}, {sample, "tensor<8xf64>"}, {one, "i64"}}, kType);
    }
    default: {
      // Which number it is depends on how many samples there are.
      std::string position = call("aten.remainder.int", {{batchSize(), "i64"}, {integer(3), "i64"}}, "i64");
      std::string numbers = constant("[0.5, 2.0, 3.0]", "!cleave.list<f64>");
      std::string number =
          call("aten.__getitem__.t", {{numbers, "!cleave.list<f64>"}, {position, "i64"}}, "f64");
      return call("aten.mul.Scalar", {{any(), kType}, {number, "f64"}}, kType);
    }
    }
  }

  std::string batchSize() {
    std::string result = name();
    head += "  " + result + " = cleave.size \"batch\"\n";
    return result;
  }

  inline static const std::string kInput = "%x";
  inline static const std::string kType = "tensor<?x8xf64, #cleave.layout<dims = [\"batch\", \"8\"]>>";
  inline static const std::string kHalves = "tensor<?x4xf64, #cleave.layout<dims = [\"2*batch\", \"4\"]>>";
  inline static const std::string kRow = "tensor<1x8xf64>";
  inline static const std::string kTurned =
      "tensor<8x?xf64, #cleave.layout<dims = [\"8\", \"batch\"], strides = [\"1\", \"8\"]>>";
  inline static const std::string kPairs = "tensor<?x?xf64, #cleave.layout<dims = [\"batch\", \"batch\"]>>";
  inline static const std::string kColumn = "tensor<?x1xf64, #cleave.layout<dims = [\"batch\", \"1\"]>>";

  Dice &dice;
  std::string head, body;
  std::vector<std::string> values, results;
  uint32_t stage = 0, count = 0;
};

/// Within 1e-14 of the largest value: a product's blocking depends on its rows, and on the CPU.
void expectNear(const at::Tensor &found, const at::Tensor &expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-14 * expected.abs().max().item<double>());
}

class RandomPlanTest : public testing::TestWithParam<uint32_t> {
protected:
  RandomPlanTest() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-random", folder));
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    static const bool isRegistered = (registerPasses(), true);
    (void)isRegistered;
  }
  ~RandomPlanTest() override { llvm::sys::fs::remove_directories(folder); }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  /// Null where a pass refuses the function.
  std::unique_ptr<plan::Plan> planOf(ModuleOp module, const std::string &passes = "split-stages") {
    PassManager manager(&context);
    EXPECT_TRUE(succeeded(parsePassPipeline("func.func(" + passes + ")", manager)));
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (failed(manager.run(module)))
      return nullptr;
    return llvm::cantFail(expectedOf(emitPlan(module, {"test", {}, ""})));
  }

  /// Null where a pass refuses the function.
  std::unique_ptr<runtime::Session> open(const std::string &text,
                                         const std::string &passes = "split-stages") {
    auto plan = planOf(*parse(text), passes);
    if (!plan)
      return nullptr;
    const std::string directory = (folder + "/" + std::to_string(opened++)).str();
    EXPECT_FALSE(llvm::sys::fs::create_directory(directory));
    llvm::cantFail(writeShards(
        *plan, directory, [&](const plan::Weight &weight, const plan::WeightShard &, plan::ByteSink sink) {
          at::manual_seed(std::stoi(weight.name.substr(1)));
          bool isMatrix = weight.shape.size() == 2;
          at::Tensor tensor = isMatrix ? at::randn({8, 8}, at::kDouble) : at::randn({8}, at::kDouble);
          return sink({static_cast<const uint8_t *>(tensor.const_data_ptr()), tensor.nbytes()});
        }));
    std::vector<uint8_t> bytes = plan::encode(*plan);
    llvm::cantFail(plan::writeFileAtomically(directory + "/" + plan::kPlanFileName,
                                             {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
    return llvm::cantFail(runtime::Session::open(directory));
  }

private:
  static llvm::Expected<std::unique_ptr<plan::Plan>> expectedOf(FailureOr<std::unique_ptr<plan::Plan>> plan) {
    if (failed(plan))
      return llvm::createStringError("no plan");
    return std::move(*plan);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  llvm::SmallString<128> folder;
  unsigned opened = 0;
};

TEST_P(RandomPlanTest, GivesWhatOneDeviceGives) {
  Dice dice(GetParam());
  const uint32_t stages = 1 + dice.below(5), ranks = 1 + dice.below(stages), microbatches = 2 + dice.below(6);
  RandomModel model(dice, stages, /*mayMix=*/false);
  const std::string whole = model.text(stages, /*ranks=*/1, /*microbatches=*/1);
  SCOPED_TRACE(model.text(stages, ranks, microbatches));
  auto one = open(whole), many = open(model.text(stages, ranks, microbatches));
  // Fewer samples than micro-batches, and numbers that these do not divide.
  for (int64_t batch : {1, 6, 13}) {
    SCOPED_TRACE("batch " + std::to_string(batch));
    at::Tensor x = at::randn({batch, 8}, at::kDouble);
    auto expected = llvm::cantFail(one->run({x})), found = llvm::cantFail(many->run({x}));
    auto again = llvm::cantFail(many->run({x}));
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      expectNear(found[i], expected[i]);
      EXPECT_TRUE(at::equal(found[i], again[i])) << "the same bits each time";
    }
  }
}

// The analysis lets pass what equals the whole, and nothing else.
TEST_P(RandomPlanTest, SplitsTheBatchWhereNothingMixesIt) {
  Dice dice(GetParam() + 1000);
  const uint32_t stages = 1 + dice.below(3), microbatches = 2 + dice.below(3);
  RandomModel model(dice, stages, /*mayMix=*/true);
  const std::string whole = model.text(stages, stages, /*microbatches=*/1);
  SCOPED_TRACE(whole);
  auto parts = open(whole, "assign-schedule{ranks=" + std::to_string(stages) +
                               " microbatches=" + std::to_string(microbatches) + "},split-stages");
  ASSERT_EQ(parts == nullptr, model.mixes);
  auto one = open(whole);
  ASSERT_TRUE(one);
  at::Tensor x = at::randn({7, 8}, at::kDouble);
  auto expected = llvm::cantFail(one->run({x}));
  if (!parts)
    return;
  auto found = llvm::cantFail(parts->run({x}));
  for (size_t i = 0; i < found.size(); ++i)
    expectNear(found[i], expected[i]);
}

// Before it is split, the same is said of a function as its plan says, and no cut holds less than is said of
// all.
TEST_P(RandomPlanTest, PredictsMemoryBeforeTheSplit) {
  Dice dice(GetParam() + 2000);
  const uint32_t stages = 1 + dice.below(5), ranks = 1 + dice.below(stages), microbatches = 1 + dice.below(3);
  const RandomModel random(dice, stages, /*mayMix=*/false);
  const std::string text = random.text(stages, ranks, microbatches);
  SCOPED_TRACE(text);
  auto module = parse(text);
  auto function = *module->getOps<func::FuncOp>().begin();
  ModelGraph model;
  std::vector<uint32_t> stageOf;
  for (Operation &op : function.getBody().front())
    if (auto stage = op.getAttrOfType<IntegerAttr>(kStageIndexAttr)) {
      stageOf.push_back(stage.getInt());
      model.nodes.push_back({&op});
      auto &node = model.graph.nodes.emplace_back();
      for (Value operand : op.getOperands())
        if (operand.getDefiningOp<ParamOp>()) {
          node.weights.push_back(model.graph.weightBytes.size());
          model.graph.weightBytes.push_back(ExampleShapes(function).bytesOf(operand));
        }
    }
  const auto unsplit = CutMemoryPredictor::make(function, "batch", microbatches, Machine::cpu(1));
  ASSERT_TRUE(unsplit);
  const CutMemory &memory = *unsplit;
  const std::vector<RankMemory> held = memory.of(model, stageOf, ranks);
  MemoryBudgets enough;
  for (const RankMemory &rank : held)
    enough.push_back(rank.bytes());
  EXPECT_TRUE(mayFit(memory, model, enough));
  // Where some have less, those that lack it need no more than the most that one of them holds.
  MemoryBudgets less = enough;
  int64_t most = 0;
  for (auto &room : less)
    if (dice.below(2)) {
      most = std::max(most, *room);
      room = dice.below(*room + 1);
    }
  EXPECT_LE(memory.lowerBound(model, less), most);
  std::vector<RankMemory> planned(ranks);
  const auto plan = planOf(*module);
  for (auto &prediction : plan->predictions) {
    RankMemory &rank = planned[prediction->stage % ranks];
    rank.weights += prediction->weight_bytes;
    rank.activations = std::max(rank.activations, prediction->activation_bytes);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(held[rank].weights, planned[rank].weights);
    EXPECT_EQ(held[rank].activations, planned[rank].activations);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlanTest, testing::Range(0u, 60u));

} // namespace
} // namespace cleave
