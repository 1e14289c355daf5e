#include "ir/inference/DimFitter.h"
#include "RandomDim.h"
#include "llvm/ADT/STLExtras.h"
#include <gmock/gmock.h>

namespace cleave {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

/// What the fitter makes of a function of the sizes.
template <typename Function> std::string fitted(const Sizes &traced, Function observe) {
  DimFitter fitter(traced);
  std::vector<int64_t> observed;
  for (const llvm::StringMap<int64_t> &point : fitter.samples())
    observed.push_back(observe(point));
  return fitter.fit(observed).str();
}

TEST(DimFitterTest, FindsPolynomials) {
  Dice dice(2);
  for (int round = 0; round < 300; ++round) {
    Sizes traced;
    std::vector<std::string> names;
    for (int64_t name = 0, count = 1 + dice.below(4); name < count; ++name) {
      names.push_back("d" + std::to_string(name));
      traced.emplace_back(names.back(), 1 + dice.below(200));
    }
    SymbolicDim wanted = randomDim(dice, names, 1);
    EXPECT_EQ(fitted(traced, [&](auto &point) { return *wanted.evaluate(point); }), wanted.str());
  }
}

// Sums whose value the divisor divides everywhere, as windows and halves of even products have.
TEST(DimFitterTest, FindsDivisors) {
  Sizes traced{{"batch", 4}, {"seq", 128}};
  for (const char *text : {"(seq*seq - seq) floordiv 2", "(seq*seq*seq - seq) floordiv 6",
                           "(batch*seq*seq + batch*seq) floordiv 2"}) {
    SymbolicDim wanted = *SymbolicDim::parse(text);
    EXPECT_EQ(fitted(traced, [&](auto &point) { return *wanted.evaluate(point); }), text);
  }
}

TEST(DimFitterTest, FindsConstantsWithoutNames) {
  DimFitter fitter({});
  ASSERT_EQ(fitter.samples().size(), 1u);
  EXPECT_EQ(fitter.fit({42}).str(), "42");
}

TEST(DimFitterTest, HasTwoDegreesForFiveNames) {
  Sizes traced{{"a", 3}, {"b", 40}, {"c", 7}, {"d", 64}, {"e", 5}};
  EXPECT_EQ(fitted(traced, [](auto &at) { return at.lookup("a") * at.lookup("e") + 2 * at.lookup("d"); }),
            "a*e + 2*d");
  EXPECT_EQ(fitted(traced, [](auto &at) { return at.lookup("a") * at.lookup("b") * at.lookup("c"); }), "?");
}

TEST(DimFitterTest, DoesNotGuess) {
  Sizes traced{{"batch", 4}, {"seq", 128}};
  EXPECT_EQ(fitted(traced, [](auto &at) { return (at.lookup("seq") + 7) / 8 * 8; }), "?") << "padded up";
  EXPECT_EQ(fitted(traced, [](auto &at) { return std::max(at.lookup("seq"), int64_t(100)); }), "?");
  EXPECT_EQ(fitted(traced, [](auto &at) { return at.lookup("seq") % 3; }), "?");
  EXPECT_EQ(fitted(traced, [](auto &at) { return at.lookup("seq") == 128 ? 128 : at.lookup("seq") + 1; }),
            "?");
  int64_t calls = 0;
  EXPECT_EQ(fitted(traced, [&](auto &) { return ++calls % 7; }), "?") << "no function of sizes";
}

/// The same, with as many more samples as tell apart what could be behind them.
template <typename Function> std::string fittedWithMore(const Sizes &traced, Function observe) {
  DimFitter fitter(traced);
  while (true) {
    std::vector<int64_t> observed;
    for (const llvm::StringMap<int64_t> &point : fitter.samples())
      observed.push_back(observe(point));
    fitter.addSamples(fitter.distinguishingSamples(observed));
    if (fitter.samples().size() == observed.size())
      return fitter.fit(observed).str();
  }
}

// What windows with strides leave of a dimension, one after the other too.
TEST(DimFitterTest, FindsSizesThatAreRoundedDown) {
  for (int64_t traced : {6, 16, 224}) {
    SCOPED_TRACE(traced);
    Sizes sizes{{"batch", 4}, {"height", traced}};
    auto of = [](auto &at) { return at.lookup("height"); };
    EXPECT_EQ(fittedWithMore(sizes, [&](auto &at) { return of(at) / 2; }), "(height) floordiv 2");
    EXPECT_EQ(fittedWithMore(sizes, [&](auto &at) { return (of(at) - 1) / 2 + 1; }),
              "(height + 1) floordiv 2");
    EXPECT_EQ(fittedWithMore(sizes, [&](auto &at) { return (of(at) + 31) / 32; }),
              "(height + 31) floordiv 32");
    EXPECT_EQ(fittedWithMore(sizes, [&](auto &at) { return of(at) * 3 / 2; }), "(3*height) floordiv 2");
    EXPECT_EQ(fittedWithMore(sizes, [&](auto &at) { return ((of(at) / 2 + 1) / 3 + 2) / 2; }),
              "(height + 14) floordiv 12");
  }
}

TEST(DimFitterTest, LeavesOtherRoundedSizesUnknown) {
  Sizes sizes{{"batch", 4}, {"height", 16}};
  for (int64_t (*observe)(int64_t, int64_t) :
       {+[](int64_t batch, int64_t height) { return height / 2 * (height / 2); },
        +[](int64_t batch, int64_t height) { return height / 2 * 2; },
        +[](int64_t batch, int64_t height) { return (batch + height) / 2; },
        +[](int64_t batch, int64_t height) { return height / 2 + (height > 100); }})
    EXPECT_EQ(
        fittedWithMore(sizes, [&](auto &at) { return observe(at.lookup("batch"), at.lookup("height")); }),
        "?");
}

// Differences and sums of rounded sizes look like one that is rounded, at most of the sizes.
TEST(DimFitterTest, IsRightEverywhereOrSaysNothing) {
  unsigned found = 0;
  for (int64_t traced : {6, 16, 20, 64, 224})
    for (int64_t a = 1; a <= 8; ++a)
      for (int64_t b = 1; b <= 8; ++b)
        for (int64_t sign : {-1, 1}) {
          auto of = [&](int64_t height) { return height / a + sign * (height / b); };
          std::string text =
              fittedWithMore({{"height", traced}}, [&](auto &at) { return of(at.lookup("height")); });
          auto dim = SymbolicDim::parse(text);
          ASSERT_TRUE(dim.has_value()) << text;
          if (dim->isUnknown())
            continue;
          ++found;
          for (int64_t height = 1; height < 2000; ++height) {
            llvm::StringMap<int64_t> at;
            at["height"] = height;
            ASSERT_EQ(dim->evaluate(at), of(height))
                << text << " for height/" << a << (sign < 0 ? " - " : " + ") << "height/" << b << " at "
                << height;
          }
        }
  // height/1 ± height/b, and sums that are none.
  EXPECT_GT(found, 100u);
}

TEST(DimFitterTest, LeavesSizesBeyondCountingUnknown) {
  Sizes sizes{{"height", 1000}};
  EXPECT_EQ(fittedWithMore(sizes, [](auto &at) { return (int64_t(1) << 60) + at.lookup("height") / 2; }),
            "?");
}

// One polynomial of lower powers where a name has few sizes.
TEST(DimFitterTest, StaysWithinLimits) {
  llvm::StringMap<SizeLimits> limits;
  limits["seq"] = {.divisibleBy = 1, .min = 6, .max = 8};
  DimFitter fitter({{"batch", 4}, {"seq", 8}}, limits);
  std::vector<int64_t> observed;
  for (auto [i, point] : llvm::enumerate(fitter.samples())) {
    if (i < fitter.requiredSamples()) {
      EXPECT_GE(point.lookup("seq"), 6);
      EXPECT_LE(point.lookup("seq"), 8);
    }
    observed.push_back(i < fitter.requiredSamples() ? 3 * point.lookup("batch") * point.lookup("seq") + 1
                                                    : DimFitter::kNotObserved);
  }
  EXPECT_EQ(fitter.fit(observed).str(), "3*batch*seq + 1");
}

TEST(DimFitterTest, SamplesTheTracedSizesFirst) {
  DimFitter fitter({{"batch", 4}, {"seq", 128}});
  EXPECT_EQ(fitter.samples()[0].lookup("batch"), 4);
  EXPECT_EQ(fitter.samples()[0].lookup("seq"), 128);
  for (const llvm::StringMap<int64_t> &point :
       llvm::ArrayRef(fitter.samples()).take_front(fitter.requiredSamples())) {
    EXPECT_GE(point.lookup("batch"), 2) << "1 broadcasts";
    EXPECT_LE(point.lookup("seq"), 128) << "tables of positions may end at the traced length";
  }
}

TEST(DimFitterTest, TriesSizeOneAndLargeSizesAsEdges) {
  DimFitter fitter({{"seq", 128}});
  std::vector<int64_t> edges;
  for (const llvm::StringMap<int64_t> &point :
       llvm::ArrayRef(fitter.samples()).drop_front(fitter.requiredSamples()))
    edges.push_back(point.lookup("seq"));
  EXPECT_EQ(edges, (std::vector<int64_t>{1, 257, 899, 3847, 526219}));
}

TEST(DimFitterTest, SamplesTheSameEverywhere) {
  DimFitter one({{"n", 30}}), other({{"n", 30}});
  ASSERT_EQ(one.samples().size(), other.samples().size());
  for (size_t i = 0; i < one.samples().size(); ++i)
    EXPECT_EQ(one.samples()[i].lookup("n"), other.samples()[i].lookup("n"));
}

} // namespace
} // namespace cleave
