//===- CutCacheTest.cpp - Cuts of one graph -------------------------------===//
#include "partitioner/cutting/CutCache.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {
/// A chain of nodes of one second, each with a weight of 10 bytes, that counts how often it is asked for.
struct Counted {
  Counted() {
    for (uint32_t node = 0; node < 8; ++node) {
      graph.nodes.push_back({"node", 1, {node}});
      graph.weightBytes.push_back(10);
    }
  }
  llvm::Expected<const StageCut *> cut(std::vector<std::optional<int64_t>> limits) {
    CutRequest request;
    request.stages.clear();
    for (const auto &limit : limits)
      request.stages.push_back({Link{0, 1e9}, limit});
    return cut(request);
  }
  llvm::Expected<const StageCut *> cut(const CutRequest &request) {
    return cuts.cut(
        [&]() -> const StageGraph & {
          ++asked;
          return graph;
        },
        request);
  }

  StageGraph graph;
  CutCache cuts;
  int asked = 0;
};
} // namespace

TEST(CutCache, SeeksACutOnce) {
  Counted chain;
  const StageCut *even = llvm::cantFail(chain.cut({60, 70}));
  EXPECT_EQ(even->weightBytes, (std::vector<int64_t>{40, 40}));
  EXPECT_EQ(llvm::cantFail(chain.cut({60, 70})), even);
  EXPECT_EQ(chain.asked, 1);
  EXPECT_EQ(llvm::cantFail(chain.cut({30, 70}))->weightBytes, (std::vector<int64_t>{30, 50}));
  EXPECT_EQ(llvm::cantFail(chain.cut({60, 70})), even);
  EXPECT_EQ(chain.asked, 2);
}

TEST(CutCache, TakesACutForAllLimitsWithWhichItIsTheSame) {
  Counted chain;
  const StageCut *even = llvm::cantFail(chain.cut({std::nullopt, std::nullopt}));
  ASSERT_LE(even->weightLimitRange.least, 1000);
  EXPECT_EQ(llvm::cantFail(chain.cut({1000, 1000})), even);
  EXPECT_EQ(chain.asked, 1);
  // Of stages with other limits each it says nothing.
  EXPECT_NE(llvm::cantFail(chain.cut({1000, 2000})), even);
  EXPECT_EQ(chain.asked, 2);
  EXPECT_NE(toString(chain.cut({39, 39}).takeError()), "");
  EXPECT_EQ(chain.asked, 3);
}

TEST(CutCache, SeeksAnewForAllElseThatIsAskedOfACut) {
  Counted chain;
  for (StageGraph::Node &node : chain.graph.nodes)
    node.onOtherKinds = {2};
  CutRequest request;
  request.stages.assign(2, {Link{0, 1e9}, 1000});
  const StageCut *even = llvm::cantFail(chain.cut(request));
  int asked = 1;
  auto expectOther = [&](auto change) {
    CutRequest other = request;
    change(other);
    EXPECT_NE(llvm::cantFail(chain.cut(other)), even);
    EXPECT_EQ(chain.asked, ++asked);
  };
  expectOther([](CutRequest &other) { other.stages.resize(3, other.stages.front()); });
  expectOther([](CutRequest &other) { other.stages[1].link.latencySeconds = 1; });
  expectOther([](CutRequest &other) { other.stages[0].kind = 1; });
  expectOther([](CutRequest &other) { other.stageStarts = {2}; });
  expectOther([](CutRequest &other) { other.limits = {0, 0}; });
  EXPECT_EQ(llvm::cantFail(chain.cut(request)), even);
}

TEST(CutCache, SaysAgainWhyThereIsNone) {
  Counted chain;
  const std::string first = toString(chain.cut({30, 30}).takeError()),
                    second = toString(chain.cut({30, 30}).takeError());
  EXPECT_NE(first.find("bytes of weights"), std::string::npos) << first;
  EXPECT_EQ(second, first);
  EXPECT_EQ(chain.asked, 1);
  // With more room there is one.
  EXPECT_TRUE(bool(chain.cut({40, 40})));
}

// What was interrupted is one of luck.
TEST(CutCache, SeeksAgainWhatWasInterrupted) {
  Counted chain;
  {
    CancellationScope ending([] { return true; });
    // Both are found along program order, and the first is as fast as any can be.
    llvm::cantFail(chain.cut({60, 70}));
    llvm::cantFail(chain.cut({30, 70}));
    llvm::consumeError(chain.cut({30, 30}).takeError());
  }
  llvm::cantFail(chain.cut({60, 70}));
  EXPECT_EQ(chain.asked, 3);
  llvm::cantFail(chain.cut({30, 70}));
  EXPECT_EQ(chain.asked, 4);
  llvm::consumeError(chain.cut({30, 30}).takeError());
  EXPECT_EQ(chain.asked, 5);
}
