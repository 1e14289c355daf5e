//===- MinimumCutTest.cpp - What to save, against all choices -------------===//
#include "ir/autograd/MinimumCut.h"
#include <gtest/gtest.h>
#include <random>

namespace cleave {
namespace {

/// Bytes saved if the values of `recomputed` (bits) are recomputed; nothing if the backward pass would lack
/// one.
std::optional<int64_t> savedBytes(const std::vector<ForwardValue> &values, unsigned recomputed) {
  std::vector<bool> needed(values.size());
  int64_t bytes = 0;
  for (unsigned value = values.size(); value-- > 0;) {
    if (!needed[value] && !values[value].isRead)
      continue;
    const bool isRecomputed = recomputed >> value & 1;
    if (isRecomputed ? !values[value].mayRecompute : !values[value].bytes)
      return std::nullopt;
    if (!isRecomputed)
      bytes += *values[value].bytes;
    else
      for (unsigned operand : values[value].operands)
        needed[operand] = true;
  }
  return bytes;
}

std::vector<ForwardValue> randomValues(std::mt19937 &random, unsigned count) {
  std::vector<ForwardValue> values(count);
  for (unsigned index = 0; index < count; ++index) {
    ForwardValue &value = values[index];
    value.mayRecompute = random() % 3 != 0;
    if (!value.mayRecompute || random() % 4 != 0)
      value.bytes = random() % 8;
    value.isRead = random() % 3 == 0;
    for (unsigned operand = 0; operand < index; ++operand)
      if (random() % 3 == 0)
        value.operands.push_back(operand);
  }
  return values;
}

TEST(MinimumCutTest, SavesTheFewestBytes) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 500; ++round) {
    const std::vector<ForwardValue> values = randomValues(random, 1 + random() % 10);
    std::optional<int64_t> least;
    for (unsigned recomputed = 0; recomputed < 1u << values.size(); ++recomputed)
      if (auto bytes = savedBytes(values, recomputed))
        least = std::min(least.value_or(*bytes), *bytes);
    unsigned found = 0;
    for (auto [index, isRecomputed] : llvm::enumerate(recomputedByMinimumCut(values)))
      found |= unsigned(isRecomputed) << index;
    EXPECT_EQ(savedBytes(values, found), least) << "round " << round;
  }
}

TEST(MinimumCutTest, RecomputesNothingWithoutGain) {
  // A product, and two cheap values after it, all of one size.
  const std::vector<ForwardValue> chain = {
      {.bytes = 4},
      {.bytes = 4, .mayRecompute = true, .operands = {0}},
      {.bytes = 4, .mayRecompute = true, .isRead = true, .operands = {1}}};
  EXPECT_EQ(recomputedByMinimumCut(chain), std::vector<bool>({false, false, false}));
}

TEST(MinimumCutTest, SavesWhatWideValuesAreMadeOf) {
  const std::vector<ForwardValue> wide = {
      {.bytes = 4},
      {.bytes = 16, .mayRecompute = true, .isRead = true, .operands = {0}},
      {.bytes = std::nullopt, .mayRecompute = true, .isRead = true, .operands = {1}}};
  EXPECT_EQ(recomputedByMinimumCut(wide), std::vector<bool>({false, true, true}));
}

} // namespace
} // namespace cleave
