// What training keeps and takes, against the formulas of Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models" (2022).
#include "partitioner/cost/TrainingCosts.h"
#include "partitioner/cost/ModelGraph.h"
#include "tests/unit/partitioner/ParseModule.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// Two layers of a GPT in float16, as one of `ranks` tensor-parallel ranks has them: Megatron's split.
struct Gpt {
  int64_t ranks = 1, samples = 2, sequence = 6, hidden = 16, heads = 4;

  std::string type(std::initializer_list<int64_t> shape, const char *strides = "") const {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f16" + strides + ">";
  }
  std::string param(const std::string &name, std::initializer_list<int64_t> shape, int splitDim = -1) const {
    std::string shard;
    if (ranks > 1 && splitDim >= 0) {
      const int64_t part = shape.begin()[splitDim];
      shard = ", shard = #cleave.sharding<" + std::to_string(splitDim);
      for (int64_t rank = 0; rank < ranks; ++rank)
        shard += ", [" + std::to_string(rank * part) + ", " + std::to_string(part) + "]";
      shard += ">";
    }
    return "  %" + name + " = cleave.param \"" + name + "\" {role = \"parameter\"" + shard +
           "} : " + type(shape) + "\n";
  }
  std::string sum(const std::string &result, const std::string &part) const {
    const std::string t = type({samples, sequence, hidden});
    return "  " + result + " = " +
           (ranks > 1 ? "spmd.all_reduce(" + part + ") : (" + t + ") -> " + t
                      : "cleave.boundary " + part + " \"sum\" output 0 : (" + t + ") -> " + t);
  }
  std::string layer(int index) const;
  std::string text() const;
};

std::string Gpt::layer(int index) const {
  const int64_t b = samples, s = sequence, h = hidden, part = hidden / ranks, own = heads / ranks,
                width = hidden / heads;
  const std::string i = std::to_string(index), p = "l" + i;
  const std::string whole = type({b, s, h}), mine = type({b, s, part}), wide = type({b, s, 4 * part});
  const std::string split = type({b, s, own, width}), head = type({b, own, s, width});
  const std::string scores = type({b, own, s, s});
  std::string text;
  auto call = [&](const std::string &result, const std::string &op, const std::string &operands,
                  const std::string &types, const std::string &to) {
    text += "  %" + p + result + " = " + op + "(" + operands + ") : (" + types + ") -> " + to +
            " loc(\"transformer.h." + i + "\")\n";
  };
  auto line = [&](const std::string &made) { text += made + " loc(\"transformer.h." + i + "\")\n"; };
  auto norm = [&](const std::string &result, const std::string &from) {
    const std::string weight = p + result + "w", w = type({h});
    text += param(weight, {h}) + param(weight + "b", {h});
    call(result, "aten.layer_norm", from + ", %width, %" + weight + ", %" + weight + "b, %eps, %no",
         whole + ", !cleave.list<i64>, " + w + ", " + w + ", f64, i1", whole);
  };
  auto linear = [&](const std::string &result, const std::string &from, const std::string &fromType,
                    int64_t out, int64_t in, int dim, const std::string &to) {
    const std::string weight = p + result + "w";
    text += param(weight, {out, in}, dim);
    call(result, "aten.linear", from + ", %" + weight + ", %none",
         fromType + ", " + type({out, in}) + ", none", to);
  };
  auto dropout = [&](const std::string &result, const std::string &from, const std::string &t) {
    call(result, "aten.dropout", from + ", %chance, %yes", t + ", f64, i1", t);
  };
  auto add = [&](const std::string &result, const std::string &left, const std::string &right) {
    call(result, "aten.add.Tensor", left + ", " + right + ", %one", whole + ", " + whole + ", i64", whole);
  };
  const std::string before = "%x" + i, pre = "%" + p;
  norm("n", before);
  linear("qkv", pre + "n", whole, 3 * part, h, 0, type({b, s, 3 * part}));
  call("parts", "aten.split.Tensor", pre + "qkv, %part, %last", type({b, s, 3 * part}) + ", i64, i64",
       "!cleave.list<!cleave.tensor>");
  line("  " + pre + "p:3 = cleave.unpack " + pre + "parts : (!cleave.list<!cleave.tensor>) -> (" + mine +
       ", " + mine + ", " + mine + ")");
  for (int item = 0; item < 3; ++item) {
    const std::string n = std::to_string(item);
    call("v" + n, "aten.view", pre + "p#" + n + ", %split", mine + ", !cleave.list<i64>", split);
    call("t" + n, "aten.transpose.int", pre + "v" + n + ", %one, %two", split + ", i64, i64", head);
  }
  call("kt", "aten.transpose.int", pre + "t1, %two, %three", head + ", i64, i64", type({b, own, width, s}));
  call("s", "aten.matmul", pre + "t0, " + pre + "kt", head + ", " + type({b, own, width, s}), scores);
  call("w", "aten.softmax.int", pre + "s, %last, %none", scores + ", i64, none", scores);
  dropout("wd", pre + "w", scores);
  call("a", "aten.matmul", pre + "wd, " + pre + "t2", scores + ", " + head, head);
  const std::string turned =
      type({b, s, own, width}, ", #cleave.layout<strides = [\"1\", \"2\", \"3\", \"4\"]>");
  call("at", "aten.transpose.int", pre + "a, %one, %two", head + ", i64, i64", turned);
  call("ar", "aten.reshape", pre + "at, %merged", turned + ", !cleave.list<i64>", mine);
  linear("o", pre + "ar", mine, h, part, 1, whole);
  line(sum(pre + "os", pre + "o"));
  dropout("od", pre + "os", whole);
  add("r", before, pre + "od");
  norm("m", pre + "r");
  linear("up", pre + "m", whole, 4 * part, h, 0, wide);
  call("g", "aten.gelu", pre + "up, %kind", wide + ", !cleave.str", wide);
  linear("down", pre + "g", wide, h, 4 * part, 1, whole);
  line(sum(pre + "ds", pre + "down"));
  dropout("dd", pre + "ds", whole);
  text += "  %x" + std::to_string(index + 1) + " = aten.add.Tensor(" + pre + "r, " + pre + "dd, %one) : (" +
          whole + ", " + whole + ", i64) -> " + whole + " loc(\"transformer.h." + i + "\")\n";
  return text;
}

std::string Gpt::text() const {
  const std::string whole = type({samples, sequence, hidden}), ints = "!cleave.list<i64>";
  auto list = [](std::initializer_list<int64_t> items) {
    std::string text;
    for (int64_t item : items)
      text += (text.empty() ? "[" : ", ") + std::to_string(item);
    return text + "]";
  };
  auto constant = [](const std::string &name, const std::string &value, const std::string &type) {
    return "  %" + name + " = cleave.constant(" + value + ") : " + type + "\n";
  };
  std::string text =
      "func.func @f(%x: " + whole + ") -> " + whole + " attributes {cleave.tp = " + std::to_string(ranks) +
      " : i64} {\n" + constant("none", "unit", "none") + constant("yes", "true", "i1") +
      constant("no", "false", "i1") + constant("one", "1 : i64", "i64") + constant("two", "2 : i64", "i64") +
      constant("three", "3 : i64", "i64") + constant("last", "-1 : i64", "i64") +
      constant("chance", "0.1 : f64", "f64") + constant("eps", "1.0e-5 : f64", "f64") +
      constant("kind", "\"none\"", "!cleave.str") +
      constant("part", std::to_string(hidden / ranks) + " : i64", "i64") +
      constant("width", list({hidden}), ints) +
      constant("split", list({samples, sequence, heads / ranks, hidden / heads}), ints) +
      constant("merged", list({samples, sequence, hidden / ranks}), ints) +
      param("positions", {sequence, hidden}) + "  %x0 = aten.add.Tensor(%x, %positions, %one) : (" + whole +
      ", " + type({sequence, hidden}) + ", i64) -> " + whole + "\n";
  return text + layer(0) + layer(1) + "  return %x2 : " + whole + "\n}\n";
}

struct Parsed {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  explicit Parsed(const std::string &text) : module(parseModule(text)) {
    if (module)
      function = *module->getOps<func::FuncOp>().begin();
  }
};

/// One product an operation a second, all else for nothing.
Machine machineOf(double flopsPerSecond, const Link &link = {0, 1e30}) {
  Machine machine;
  machine.devices = {{"cuda:0", flopsPerSecond, 1e30, 0, {}}};
  machine.link = link;
  machine.collectives = link;
  return machine;
}

TrainingStageCost costOf(const std::string &text, const TrainingOptions &options, const Machine &machine) {
  Parsed parsed(text);
  EXPECT_TRUE(parsed.function);
  if (!parsed.function)
    return {};
  SmallVector<Operation *> ops;
  for (Operation &op : parsed.function.getBody().front().without_terminator())
    ops.push_back(&op);
  const DeviceGroup group{machine.devices, machine.collectives};
  BackwardPassCache backwards;
  return TrainingCosts(parsed.function, ExampleShapes(parsed.function), group, options, backwards).stage(ops);
}

/// Bytes that a layer keeps, by s b h and a s / h; the paper leaves out the mean and the deviation of each
/// row that each of the two norms keeps, here in bfloat16.
int64_t savedByALayer(const Gpt &gpt, const TrainingOptions &options) {
  return costOf(gpt.text(), options, machineOf(1)).savedBytes / 2;
}
constexpr int64_t kStatisticsOfARow = 2 * 2 * 2;

struct Formula {
  int64_t rows, sbh, scores;
  explicit Formula(const Gpt &gpt)
      : rows(gpt.sequence * gpt.samples), sbh(rows * gpt.hidden), scores(rows * gpt.sequence * gpt.heads) {}
};

TEST(TrainingCostsTest, KeepsWhatTheFormulaSays) {
  Gpt gpt;
  Formula formula(gpt);
  EXPECT_EQ(savedByALayer(gpt, {}), 34 * formula.sbh + 5 * formula.scores + kStatisticsOfARow * formula.rows);
}

TEST(TrainingCostsTest, TensorRanksKeepTheirPart) {
  for (int64_t t : {2, 4}) {
    Gpt gpt{.ranks = t};
    Formula formula(gpt);
    EXPECT_EQ(savedByALayer(gpt, {}), 10 * formula.sbh + 24 * formula.sbh / t + 5 * formula.scores / t +
                                          kStatisticsOfARow * formula.rows);
    const TrainingOptions parallel{std::nullopt, true};
    EXPECT_EQ(savedByALayer(gpt, parallel),
              34 * formula.sbh / t + 5 * formula.scores / t + kStatisticsOfARow * formula.rows / t);
  }
}

TEST(TrainingCostsTest, RecomputesScores) {
  Gpt gpt{.ranks = 2};
  Formula formula(gpt);
  EXPECT_EQ(savedByALayer(gpt, {RecomputeKind::Selective, true}),
            34 * formula.sbh / 2 + kStatisticsOfARow * formula.rows / 2);
  EXPECT_EQ(costOf(gpt.text(), {RecomputeKind::Selective, true}, machineOf(1)).recomputedBytes,
            5 * formula.scores / 2);
}

TEST(TrainingCostsTest, RecomputesBlocks) {
  Gpt gpt;
  Formula formula(gpt);
  TrainingStageCost cost = costOf(gpt.text(), {RecomputeKind::Full, false}, machineOf(1));
  EXPECT_EQ(cost.savedBytes, 2 * 2 * formula.sbh);
  // All of a layer but what enters it.
  EXPECT_EQ(cost.recomputedBytes, 32 * formula.sbh + 5 * formula.scores + kStatisticsOfARow * formula.rows);
}

TEST(TrainingCostsTest, GradientsTakeTwiceTheProducts) {
  const std::string text = R"(func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %none = cleave.constant(unit) : none
  %w = cleave.param "w" {role = "parameter"} : tensor<8x8xf32>
  %v = cleave.param "v" {role = "parameter"} : tensor<8x8xf32>
  %y = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<8x8xf32>, none) -> tensor<4x8xf32> loc("0")
  %z = aten.linear(%y, %v, %none) : (tensor<4x8xf32>, tensor<8x8xf32>, none) -> tensor<4x8xf32> loc("1")
  return %z : tensor<4x8xf32>
})";
  const double product = 2 * 4 * 8 * 8;
  TrainingStageCost cost = costOf(text, {}, machineOf(1));
  // Nobody wants the gradient of the request's input.
  EXPECT_EQ(cost.forward, 2 * product);
  EXPECT_EQ(cost.inputGradient, product);
  EXPECT_EQ(cost.weightGradient, 2 * product);
  EXPECT_EQ(cost.savedBytes, 2 * 4 * 8 * 4);
  // Adam in float32: the weights, their gradients and two moments.
  EXPECT_EQ(cost.stateBytes, 2 * 8 * 8 * 16);
  EXPECT_EQ(costOf(text, {RecomputeKind::Full, false}, machineOf(1)).inputGradient, 3 * product);
}

TEST(TrainingCostsTest, SumsOverRanksBothWays) {
  Gpt gpt{.ranks = 2};
  // A second a message: an all-reduce over two ranks is two.
  const Machine machine = machineOf(1e30, {1, 1e30});
  auto sums = [&](const TrainingOptions &options) { return costOf(gpt.text(), options, machine); };
  // Megatron's f and g (Shoeybi et al. 2019): each of a layer's two blocks has a sum on its path out, and one
  // back.
  EXPECT_NEAR(sums({}).forward, 2 * 2 * 2, 1e-9);
  EXPECT_NEAR(sums({}).inputGradient, 2 * 2 * 2, 1e-9);
  EXPECT_NEAR(sums({RecomputeKind::Full, false}).inputGradient, 2 * 2 * 2 + 2 * 2 * 2, 1e-9);
  // A reduce-scatter and an all-gather each: as many.
  EXPECT_NEAR(sums({std::nullopt, true}).forward, 2 * 2 * 2, 1e-9);
  EXPECT_NEAR(sums({std::nullopt, true}).inputGradient, 2 * 2 * 2, 1e-9);
}

/// A tensor group of a device and of one that is three times slower goes at the pace of that one.
TEST(TrainingCostsTest, TakesWhatTheSlowestDeviceTakes) {
  const std::string text = Gpt{}.text();
  Machine both = machineOf(3);
  both.devices.push_back(machineOf(1).devices.front());
  const TrainingStageCost slow = costOf(text, {}, machineOf(1)), mixed = costOf(text, {}, both);
  EXPECT_EQ(mixed.forward, slow.forward);
  EXPECT_EQ(mixed.inputGradient, slow.inputGradient);
  EXPECT_EQ(mixed.weightGradient, slow.weightGradient);
  EXPECT_NEAR(costOf(text, {}, machineOf(3)).forward * 3, slow.forward, 1e-9 * slow.forward);
  both.devices.back().memoryBytesPerSecond = 1;
  EXPECT_GT(costOf(text, {}, both).update, 1e20 * mixed.update);
}

TEST(TrainingCostsTest, HoldsMixedPrecisionState) {
  Gpt gpt{.ranks = 2};
  const int64_t h = gpt.hidden;
  const int64_t parameters = 2 * (12 * h * h / 2 + 4 * h) + gpt.sequence * h;
  // Megatron-LM's 18 bytes a parameter.
  EXPECT_EQ(costOf(gpt.text(), {}, machineOf(1)).stateBytes, 18 * parameters);
}

TEST(TrainingCostsTest, KeepsNothingWhereNoGradientGoes) {
  const std::string text = R"(func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = cleave.param "w" {role = "buffer"} : tensor<8xf32>
  %y = aten.mul.Tensor(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = aten.exp(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
})";
  TrainingStageCost cost = costOf(text, {}, machineOf(1));
  EXPECT_EQ(cost.savedBytes, 0);
  EXPECT_EQ(cost.inputGradient + cost.weightGradient, 0);
  EXPECT_EQ(cost.stateBytes, 8 * 4);
}

} // namespace
} // namespace cleave
