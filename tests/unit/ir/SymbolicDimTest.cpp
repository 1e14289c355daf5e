#include "ir/SymbolicDim.h"
#include "RandomDim.h"
#include <gmock/gmock.h>
#include <limits>

namespace cleave {
namespace {

using testing::Eq;
using testing::Optional;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

std::optional<int64_t> evaluate(llvm::StringRef text,
                                std::initializer_list<std::pair<llvm::StringRef, int64_t>> sizes) {
  auto dim = SymbolicDim::parse(text);
  EXPECT_TRUE(dim.has_value()) << text.str();
  return dim ? dim->evaluate(llvm::StringMap<int64_t>(sizes)) : std::nullopt;
}

std::string canonical(llvm::StringRef text) {
  auto dim = SymbolicDim::parse(text);
  return dim ? dim->str() : "none";
}

TEST(SymbolicDimTest, ReadsBackWhatItPrinted) {
  Dice dice(1);
  for (int round = 0; round < 2000; ++round) {
    SymbolicDim dim = randomDim(dice, {"batch", "seq", "x_1"}, 1 + dice.below(8));
    EXPECT_THAT(SymbolicDim::parse(dim.str()), Optional(dim)) << dim.str();
  }
  EXPECT_THAT(SymbolicDim::parse(SymbolicDim::unknown().str()), Optional(SymbolicDim::unknown()));
}

TEST(SymbolicDimTest, HasOneTextForEqualExpressions) {
  EXPECT_EQ(canonical("1 + batch*2"), "2*batch + 1");
  EXPECT_EQ(canonical("seq*batch - batch*seq"), "0");
  EXPECT_EQ(canonical("2*3*seq*1"), "6*seq");
  EXPECT_EQ(canonical("(6*seq + 3) floordiv 9"), "(2*seq + 1) floordiv 3");
  EXPECT_EQ(canonical("(4*seq) floordiv 2"), "2*seq");
  EXPECT_EQ(canonical(" seq "), "seq");
  EXPECT_EQ(canonical("-1*seq + -2"), "-1*seq - 2");
}

TEST(SymbolicDimTest, RefusesWhatIsNoExpression) {
  for (const char *text :
       {"", " ", "batch+", "batch + ", "2batch", "batch seq", "(seq", "seq floordiv 2", "(seq) floordiv 0",
        "(seq) floordiv -2", "(seq) floordiv two", "0x10", "1.5", "? + 1", "9223372036854775808",
        "9223372036854775807*2", "9223372036854775807 + 1", "batch**2"})
    EXPECT_EQ(canonical(text), "none") << text;
}

TEST(SymbolicDimTest, Evaluates) {
  EXPECT_THAT(evaluate("12*batch*seq + seq - 1", {{"batch", 4}, {"seq", 10}}), Optional(489));
  EXPECT_THAT(evaluate("seq*seq*seq", {{"seq", 5}}), Optional(125));
  EXPECT_THAT(evaluate("7", {}), Optional(7));
  EXPECT_THAT(evaluate("0", {}), Optional(0));
  EXPECT_EQ(evaluate("batch", {{"seq", 1}}), std::nullopt) << "a name without a size";
  EXPECT_EQ(evaluate("?", {}), std::nullopt);
}

TEST(SymbolicDimTest, RoundsDown) {
  EXPECT_THAT(evaluate("(seq) floordiv 2", {{"seq", 7}}), Optional(3));
  EXPECT_THAT(evaluate("(seq - 10) floordiv 2", {{"seq", 7}}), Optional(-2));
}

TEST(SymbolicDimTest, KnowsConstants) {
  EXPECT_THAT(SymbolicDim::constant(-3).asConstant(), Optional(-3));
  EXPECT_THAT(SymbolicDim::make({{{}, 7}}, 2).asConstant(), Optional(3));
  EXPECT_EQ(SymbolicDim::symbol("batch").asConstant(), std::nullopt);
  EXPECT_EQ(SymbolicDim::unknown().asConstant(), std::nullopt);
}

TEST(SymbolicDimTest, HasNoValueBeyond64Bits) {
  EXPECT_THAT(evaluate("seq", {{"seq", kMost}}), Optional(kMost));
  EXPECT_EQ(evaluate("2*seq", {{"seq", kMost}}), std::nullopt);
  EXPECT_EQ(evaluate("seq + 1", {{"seq", kMost}}), std::nullopt);
  EXPECT_EQ(evaluate("seq*seq", {{"seq", int64_t(1) << 32}}), std::nullopt);
  EXPECT_THAT(evaluate("-9223372036854775808", {}), Optional(kLeast));
}

TEST(SymbolicDimTest, KnowsNames) {
  for (const char *name : {"batch", "_x", "B1", "a_b"})
    EXPECT_TRUE(isDimName(name)) << name;
  for (const char *name : {"", "1a", "a-b", "a b", "ä"})
    EXPECT_FALSE(isDimName(name)) << name;
}

} // namespace
} // namespace cleave
