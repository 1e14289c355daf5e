//===- RandomOperatorsTest.cpp --------------------------------------------===//
#include "random/RandomOperators.h"
#include "random/Philox.h"
#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace cleave {
namespace {

using at::Tensor;

/// Blocks before and after what vector registers hold, and the end of 64 bits.
TEST(PhiloxTest, GivesTheNumbersOfAten) {
  for (auto [key, stream] : {std::pair<uint64_t, uint64_t>{0, 0}, {42, 7}, {~0ull, ~0ull >> 3}})
    for (uint64_t first : {0ull, 1ull, 3ull, 1022ull, (1ull << 34) - 5, ~0ull - 700}) {
      std::vector<uint32_t> numbers(1500);
      Philox{key, stream}.fill(first, numbers.size(), numbers.data());
      for (size_t i = 0; i < numbers.size(); ++i) {
        const uint64_t index = first + i;
        at::Philox4_32 engine(key, stream, index / 4);
        for (uint64_t lane = 0; lane < index % 4; ++lane)
          engine();
        ASSERT_EQ(numbers[i], engine()) << key << " " << stream << " " << index;
      }
    }
}

struct Draw {
  std::string name;
  std::vector<c10::IValue> last;
  int64_t key = 1234567890123;
  int64_t stream = 3;

  Tensor operator()(const std::vector<Tensor> &indices, c10::DispatchKeySet keys = {}) const {
    registerRandomOperators();
    auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(("random::" + name).c_str(), "");
    torch::jit::Stack stack{at::scalar_tensor(key, at::kLong), stream, c10::List<Tensor>(indices)};
    stack.insert(stack.end(), last.begin(), last.end());
    if (keys.empty())
      handle.callBoxed(stack);
    else
      handle.redispatchBoxed(keys, &stack);
    return stack.back().toTensor();
  }
};

std::vector<Draw> draws() {
  std::vector<Draw> all;
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    all.push_back({"uniform", {int64_t(type)}});
    all.push_back({"normal", {int64_t(type)}});
    all.push_back({"bernoulli", {0.3, int64_t(type)}});
  }
  all.push_back({"bernoulli", {0.9, int64_t(at::kBool)}});
  all.push_back({"bernoulli", {0.0, int64_t(at::kLong)}});
  all.push_back({"bernoulli", {1.0, int64_t(at::kLong)}});
  return all;
}

Tensor range(int64_t size) { return at::arange(size, at::kLong); }

/// Of [rows, 5, columns].
std::vector<Tensor> indicesOf(const Tensor &rows, int64_t columns) {
  return {rows.mul(5 * columns).view({-1, 1, 1}), range(5).mul(columns).view({5, 1}), range(columns)};
}

TEST(RandomOperatorsTest, PartsHaveTheNumbersOfTheWhole) {
  for (const Draw &draw : draws()) {
    const Tensor whole = draw(indicesOf(range(7), 301));
    ASSERT_EQ(whole.sizes(), at::IntArrayRef({7, 5, 301}));
    EXPECT_TRUE(draw(indicesOf(range(7).slice(0, 2, 5), 301)).equal(whole.slice(0, 2, 5))) << draw.name;
    const Tensor flat = draw({range(7 * 5 * 301)});
    EXPECT_TRUE(flat.equal(whole.flatten())) << draw.name;
    // Indices that are in no order, and of the whole shape.
    const Tensor permuted = range(7 * 5 * 301).flip(0).view({7, 5, 301});
    EXPECT_TRUE(draw({permuted}).flatten().equal(flat.flip(0))) << draw.name;
    EXPECT_TRUE(
        draw({permuted.select(1, 0).select(1, 0).view({7, 1}), range(3).mul(-2)})
            .equal(flat.index({permuted.select(1, 0).select(1, 0).view({7, 1}).add(range(3).mul(-2))})))
        << draw.name;
    EXPECT_EQ(draw({at::scalar_tensor(9, at::kLong)}).dim(), 0);
    EXPECT_EQ(draw({range(0)}).numel(), 0);
  }
}

/// As a device without a kernel of its own does.
TEST(RandomOperatorsTest, OperationsOfAtenGiveTheSame) {
  for (const Draw &draw : draws()) {
    const std::vector<Tensor> indices = indicesOf(range(3), 33);
    const Tensor expected = draw(indices),
                 found = draw(indices, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1));
    EXPECT_EQ(found.scalar_type(), expected.scalar_type());
    const bool isNarrow = expected.element_size() < 4;
    EXPECT_TRUE(draw.name == "normal" ? found.allclose(expected, isNarrow ? 1e-2 : 1e-5, 1e-6)
                                      : found.equal(expected))
        << draw.name << " " << found.scalar_type();
  }
  // Indices and keys of 64 bits.
  const Tensor all = at::randint(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                                 {2, 500}, at::kLong);
  for (int64_t key :
       {int64_t(0), int64_t(-1), std::numeric_limits<int64_t>::min(), all[0][0].item<int64_t>()}) {
    const Draw draw{"uniform", {int64_t(at::kDouble)}, key, key};
    EXPECT_TRUE(draw({all}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)).equal(draw({all})));
  }
}

TEST(RandomOperatorsTest, NumbersHaveTheirDistribution) {
  const std::vector<Tensor> indices{range(200000)};
  const Tensor uniform = Draw{"uniform", {int64_t(at::kFloat)}}(indices);
  EXPECT_GE(uniform.min().item<double>(), 0);
  EXPECT_LT(uniform.max().item<double>(), 1);
  EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.003);
  EXPECT_NEAR(uniform.var().item<double>(), 1.0 / 12, 0.001);
  // Of each dtype less than 1.
  for (at::ScalarType type : {at::kHalf, at::kBFloat16})
    EXPECT_LT(Draw({"uniform", {int64_t(type)}})(indices).max().item<double>(), 1);
  const Tensor normal = Draw{"normal", {int64_t(at::kFloat)}}(indices);
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(normal.var().item<double>(), 1, 0.02);
  EXPECT_NEAR(normal.pow(4).mean().item<double>(), 3, 0.1);
  EXPECT_NEAR((normal.slice(0, 1) * normal.slice(0, 0, -1)).mean().item<double>(), 0, 0.01);
  for (double p : {0.1, 0.5, 0.9})
    EXPECT_NEAR(Draw({"bernoulli", {p, int64_t(at::kFloat)}})(indices).mean().item<double>(), p, 0.005);
  EXPECT_EQ(Draw({"bernoulli", {0.0, int64_t(at::kFloat)}})(indices).sum().item<double>(), 0);
  EXPECT_EQ(Draw({"bernoulli", {1.0, int64_t(at::kFloat)}})(indices).sum().item<double>(), 200000);
}

TEST(RandomOperatorsTest, KeysAndStreamsGiveOthers) {
  Draw draw{"uniform", {int64_t(at::kFloat)}};
  const Tensor first = draw({range(100)});
  EXPECT_TRUE(draw({range(100)}).equal(first));
  draw.stream = 4;
  EXPECT_EQ(draw({range(100)}).eq(first).sum().item<int64_t>(), 0);
  draw = {"uniform", {int64_t(at::kFloat)}, 1234567890124};
  EXPECT_EQ(draw({range(100)}).eq(first).sum().item<int64_t>(), 0);
}

TEST(RandomOperatorsTest, RefusesWhatItCannotDraw) {
  const Draw uniform{"uniform", {int64_t(at::kFloat)}};
  EXPECT_THROW(uniform({}), c10::Error);
  EXPECT_THROW(Draw({"uniform", {int64_t(at::kFloat8_e5m2)}})({range(3)}), c10::Error);
  EXPECT_THROW(Draw({"uniform", {int64_t(1000)}})({range(3)}), c10::Error);
  EXPECT_THROW(Draw({"bernoulli", {0.5, int64_t(-1)}})({range(3)}), c10::Error);
  EXPECT_THROW(uniform({at::rand({3})}), c10::Error);
  EXPECT_THROW(uniform({range(3), range(4)}), c10::Error);
  EXPECT_THROW(Draw({"uniform", {int64_t(at::kLong)}})({range(3)}), c10::Error);
  EXPECT_THROW(Draw({"bernoulli", {1.5, int64_t(at::kFloat)}})({range(3)}), c10::Error);
  EXPECT_THROW(Draw({"bernoulli", {std::nan(""), int64_t(at::kFloat)}})({range(3)}), c10::Error);
  EXPECT_THROW(Draw({"bernoulli", {0.5, int64_t(at::kComplexFloat)}})({range(3)}), c10::Error);
}

} // namespace
} // namespace cleave
