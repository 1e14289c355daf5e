//===- ProfileTest.cpp - What is measured, and what of it counts ----------===//
#include "tools/driver/profile/Profile.h"
#include "runtime/profile/KernelTimer.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <map>
#include <set>

namespace cleave {

using testing::Contains;
using testing::ElementsAre;

namespace {
/// Has two devices, says of each pass what it is told to, and remembers what it was asked. Nothing is run.
class ToldTimer final : public runtime::KernelTimer {
public:
  /// \param seconds  by pass: of any call.
  explicit ToldTimer(std::vector<double> seconds) : seconds(std::move(seconds)) {}

  size_t devices() const override { return 2; }
  int threads() const override { return 1; }
  llvm::Expected<double> secondsOf(const Call &timed, const Call *before) override {
    // A pass begins with what a call takes.
    rounds += timed.name == "aten::relu" && !before;
    ++calls[timed.name][before ? before->name : ""];
    if (timed.name == "aten::linear") {
      const at::Tensor weight = timed.operands(0).front().at(1).toTensor();
      columns[weight.scalar_type()].insert(weight.size(0));
    }
    if (before)
      for (const torch::jit::Stack &turn : before->operands(0))
        weightsBefore.insert(turn.at(1).toTensor().data_ptr());
    return seconds.at(rounds - 1);
  }
  std::vector<int64_t> messageBytes() const override { return {4, 4 << 20}; }
  llvm::Expected<double> secondsOfMessage(int64_t bytes, bool sends) override {
    const bool isLarge = bytes > 4;
    // Latency 1, and 2 for the bytes of the large one.
    return seconds.at(rounds - 1) * (sends ? (isLarge ? 5 : 2) : (isLarge ? 2 : 1));
  }

  size_t rounds = 0;
  /// How often each was timed, by what was called before.
  std::map<std::string, std::map<std::string, int>> calls;
  std::map<at::ScalarType, std::set<int64_t>> columns;
  std::set<void *> weightsBefore;

private:
  const std::vector<double> seconds;
};

class ProfileTest : public testing::Test {
protected:
  /// One device is the other's like.
  static Machine profiled(ToldTimer &timer, int rounds, bool quick = false) {
    return llvm::cantFail(profile({{"cpu:0", "cpu:1"}, quick, rounds, {}}, timer));
  }
};
} // namespace

/// Rows of a vocabulary are wider than any layer, and their products faster.
TEST_F(ProfileTest, MeasuresProductsUpToTheWidthOfVocabularies) {
  ToldTimer timer({1e-3});
  const Machine machine = profiled(timer, 1);
  EXPECT_THAT(timer.columns[at::kFloat], ElementsAre(64, 256, 768, 3072, 32768));
  EXPECT_THAT(timer.columns[at::kBFloat16], ElementsAre(256, 768, 3072));
  const RateTable &matrix = machine.devices[0].rates->gemms.at({GemmKind::Matrix, "float32"});
  EXPECT_THAT(matrix.axisSizes().at(2), ElementsAre(64, 256, 768, 3072, 32768));
  EXPECT_THAT(matrix.axisSizes().at(1), ElementsAre(1, 8, 32, 128, 512, 2048));
}

/// Tensor-parallel ranks have parts of the channels, and give each other what no cache holds.
TEST_F(ProfileTest, MeasuresWhatTensorRanksOfImagesDo) {
  ToldTimer timer({1e-3});
  const Machine machine = profiled(timer, 1);
  const RateTable &pointwise = machine.devices[0].rates->gemms.at({GemmKind::Pointwise, "float32"});
  EXPECT_EQ(pointwise.axisSizes().at(2).front(), 32);
  const RateTable &gather = machine.collectives.measurementOf(CollectiveKind::AllGather)->bytesPerSecond;
  EXPECT_EQ(gather.axisSizes().at(0).back(), 32 << 20);
}

/// What operators and collectives find in caches is what other work left there, not their own operands.
TEST_F(ProfileTest, MeasuresOperatorsAfterWork) {
  ToldTimer timer({1e-3});
  const Machine machine = profiled(timer, 1);
  std::set<std::string> afterWork;
  for (const auto &[name, before] : timer.calls)
    if (name == "aten::relu") {
      // The call alone, and the operator.
      EXPECT_EQ(before.count("") + before.count("aten::linear"), 2u);
      EXPECT_EQ(before.at("aten::linear"), 5);
      afterWork.insert(name);
    } else if (name == "aten::linear" || name == "aten::conv2d" ||
               name == "aten::scaled_dot_product_attention") {
      EXPECT_EQ(before.count("aten::linear"), 0u) << name;
    } else {
      EXPECT_THAT(before, ElementsAre(testing::Pair("aten::linear", name.starts_with("spmd::") ? 7 : 5)))
          << name;
      afterWork.insert(name);
    }
  // Kernels of operators that are called otherwise, too.
  EXPECT_EQ(afterWork.size(), machine.devices[0].rates->operators.size() + std::size(kCollectiveKinds));
  EXPECT_THAT(afterWork, Contains("aten::layer_norm"));
  EXPECT_EQ(timer.weightsBefore.size(), 16u);
}

/// Neither the first nor the last, neither the fastest nor the mean.
TEST_F(ProfileTest, TakesTheMedianOfPasses) {
  for (const std::vector<double> &rounds :
       {std::vector{2e-3, 9e-3, 1e-3}, {1e-3, 2e-3, 9e-3}, {9e-3, 1e-3, 2e-3}, {9e-3, 2e-3, 1e-3, 5e-3}}) {
    ToldTimer timer(rounds);
    const Machine machine = profiled(timer, rounds.size(), /*quick=*/true);
    const DeviceSpec &device = machine.devices[1];
    EXPECT_EQ(timer.rounds, rounds.size());
    EXPECT_DOUBLE_EQ(device.dispatchSeconds, 2e-3);
    // Of what takes no longer than a call, a tenth is thought to be its own.
    EXPECT_NEAR(device.rates->gemms.at({GemmKind::Matrix, "float32"}).at({1, 1, 64, 64}), 2 * 64 * 64 / 2e-4,
                1e4);
    EXPECT_NEAR(device.rates->otherOperators.at({3 * 4 * 4096}), 3 * 4 * 4096 / 2e-4, 1e5);
    EXPECT_NEAR(machine.collectives.measurementOf(CollectiveKind::AllReduce)->latencySeconds, 2e-4, 1e-9);
    EXPECT_NEAR(machine.link.latencySeconds, 2e-3, 1e-9);
    EXPECT_NEAR(machine.link.bytesPerSecond, (4 << 20) / 4e-3, 1e6);
  }
}

} // namespace cleave
