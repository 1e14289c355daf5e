// A network whose backward pass is written by hand trains by every schedule, over every mesh, as libtorch's
// autograd says.
#include "runtime/device/DeviceWorker.h"
#include "runtime/session/Session.h"
#include "tests/training/TrainingNetwork.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace cleave {
namespace {

using plan::ActionKind;

/// What each step of a training gives: the loss, and the gradients of the weights.
using Steps = std::vector<std::vector<at::Tensor>>;

/// By libtorch's autograd, in one piece.
Steps trainEagerly(const TrainingNetwork &network, uint32_t steps, int64_t batch) {
  std::map<std::string, at::Tensor> weights = network.weights(), momentum;
  Steps results;
  for (uint32_t step = 0; step < steps; ++step) {
    for (auto &[name, weight] : weights)
      weight = weight.detach().requires_grad_();
    const std::vector<at::Tensor> inputs = TrainingNetwork::inputs(batch, step);
    auto nameOf = [&](uint32_t layer) {
      return "w" + std::to_string(network.isTied && layer + 1 == network.layers ? 0 : layer);
    };
    at::Tensor value = inputs[0];
    for (uint32_t layer = 0; layer < network.layers; ++layer) {
      value = at::linear(value, weights.at(nameOf(layer)), weights.at("b" + std::to_string(layer)));
      if (layer + 1 < network.layers)
        value = value.relu();
    }
    const at::Tensor loss = (value - inputs[1]).square().sum();
    torch::autograd::backward({loss}, {});
    std::vector<at::Tensor> result{loss.detach()};
    for (uint32_t layer = 0; layer < network.layers; ++layer)
      result.push_back(weights.at(nameOf(layer)).grad().clone());
    results.push_back(std::move(result));
    for (auto &[name, weight] : weights) {
      at::Tensor step = weight.grad();
      if (name[0] == 'w') {
        at::Tensor &kept = momentum[name];
        kept = kept.defined() ? kept * TrainingNetwork::kMomentum + step : step.clone();
        step = kept;
      }
      weight = weight.detach() - TrainingNetwork::kLearningRate * step;
    }
  }
  return results;
}

class TrainingScheduleTest : public testing::Test {
protected:
  TrainingScheduleTest() { EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-training", folder)); }
  ~TrainingScheduleTest() override { llvm::sys::fs::remove_directories(folder); }

  std::unique_ptr<runtime::Session> open(const TrainingNetwork &network,
                                         runtime::SessionOptions options = {}) {
    const std::string path = (folder + "/" + std::to_string(opened++) + ".plan").str();
    llvm::Error error = network.write(path);
    EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    auto session = runtime::Session::open(path, options);
    EXPECT_TRUE(bool(session)) << llvm::toString(session.takeError());
    return session ? std::move(*session) : nullptr;
  }

  Steps train(runtime::Session &session, uint32_t steps, int64_t batch) {
    Steps results;
    for (uint32_t step = 0; step < steps; ++step) {
      auto result = session.run(TrainingNetwork::inputs(batch, step));
      EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError());
      if (result)
        results.push_back(std::move(*result));
    }
    return results;
  }

  llvm::SmallString<128> folder;
  unsigned opened = 0;
};

void expectClose(const Steps &found, const Steps &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t step = 0; step < found.size(); ++step) {
    ASSERT_EQ(found[step].size(), expected[step].size());
    for (size_t i = 0; i < found[step].size(); ++i) {
      const double largest = expected[step][i].abs().max().item<double>();
      EXPECT_LE((found[step][i] - expected[step][i]).abs().max().item<double>(), 1e-5 * largest)
          << "step " << step << ", output " << i;
    }
  }
}

bool haveSameBits(const Steps &a, const Steps &b) {
  if (a.size() != b.size())
    return false;
  for (size_t step = 0; step < a.size(); ++step)
    for (size_t i = 0; i < a[step].size(); ++i)
      if (!at::equal(a[step][i], b[step][i]))
        return false;
  return true;
}

/// All schedules that the pipeline can have.
std::vector<std::string> ordersOf(const TrainingNetwork &network) {
  if (network.layers == network.pipelineRanks)
    return {"gpipe", "1f1b", "zb-h1"};
  return {"gpipe", "interleaved"};
}

TEST_F(TrainingScheduleTest, EveryScheduleTrainsAsAutogradDoes) {
  for (uint32_t layers : {2, 4})
    for (uint32_t ranks : {1, 2, 4})
      for (uint32_t dp : {1, 2})
        for (uint32_t tp : {1, 2}) {
          if (ranks > layers)
            continue;
          TrainingNetwork network{layers, ranks, dp, tp};
          const Steps expected = trainEagerly(network, 3, 16);
          std::optional<Steps> first;
          for (const std::string &order : ordersOf(network)) {
            network.order = order;
            SCOPED_TRACE(order + " layers " + std::to_string(layers) + " pp " + std::to_string(ranks) +
                         " dp " + std::to_string(dp) + " tp " + std::to_string(tp));
            auto session = open(network);
            ASSERT_TRUE(session);
            const Steps found = train(*session, 3, 16);
            expectClose(found, expected);
            if (!first)
              first = found;
            EXPECT_TRUE(haveSameBits(found, *first)) << "every schedule gives the same bits";
          }
        }
}

/// All ranks on one GPU.
class TrainingGpuTest : public TrainingScheduleTest {
protected:
  void SetUp() override {
    auto gpu = runtime::resolveDevices({"cuda:0"}, 1);
    if (!gpu)
      GTEST_SKIP() << llvm::toString(gpu.takeError());
  }
};

TEST_F(TrainingGpuTest, EveryScheduleTrainsAsAutogradDoes) {
  for (bool isTied : {false, true})
    for (uint32_t ranks : {1, 2, 4})
      for (uint32_t dp : {1, 2})
        for (uint32_t tp : {1, 2}) {
          // The tied weight is in two stages of different ranks, and whole in both.
          if (isTied && (ranks < 4 || tp > 1))
            continue;
          TrainingNetwork network{4, ranks, dp, tp};
          network.isTied = isTied;
          const Steps expected = trainEagerly(network, 3, 16);
          std::optional<Steps> first;
          for (const std::string &order : ordersOf(network)) {
            network.order = order;
            SCOPED_TRACE(order + " pp " + std::to_string(ranks) + " dp " + std::to_string(dp) + " tp " +
                         std::to_string(tp) + (isTied ? " tied" : ""));
            runtime::SessionOptions options;
            options.devices.assign(ranks * dp * tp, "cuda:0");
            auto session = open(network, options);
            ASSERT_TRUE(session);
            const Steps found = train(*session, 3, 16);
            expectClose(found, expected);
            if (!first)
              first = found;
            EXPECT_TRUE(haveSameBits(found, *first)) << "every schedule gives the same bits";
          }
        }
}

// Batches that micro-batches and data-parallel ranks do not divide, or that leave some without samples.
TEST_F(TrainingScheduleTest, UnevenBatches) {
  const TrainingNetwork network{.dataParallelSize = 2};
  for (int64_t batch : {1, 3, 7, 9}) {
    SCOPED_TRACE("batch " + std::to_string(batch));
    auto session = open(network);
    ASSERT_TRUE(session);
    expectClose(train(*session, 2, batch), trainEagerly(network, 2, batch));
  }
}

TEST_F(TrainingScheduleTest, GradientsOfTiedWeightsAreSummed) {
  for (uint32_t dp : {1, 2}) {
    TrainingNetwork network{.layers = 4, .pipelineRanks = 4, .dataParallelSize = dp};
    network.isTied = true;
    auto session = open(network);
    ASSERT_TRUE(session);
    expectClose(train(*session, 3, 16), trainEagerly(network, 3, 16));
  }
}

/// Most micro-batches that a rank holds at once: their forward pass on a stage has begun, and their last pass
/// there has not ended.
uint32_t peakInFlight(const std::vector<runtime::TraceEvent> &events, uint32_t rank) {
  int32_t held = 0, most = 0;
  for (const runtime::TraceEvent &event : events) {
    if (event.rank != rank)
      continue;
    held += event.action.kind == ActionKind::Forward;
    most = std::max(most, held);
    held -= event.action.kind == ActionKind::BackwardWeight;
  }
  return most;
}

// The formulas of partitioner/simulation/Simulator.h.
TEST_F(TrainingScheduleTest, ActivationsLiveAsTheFormulasSay) {
  const uint32_t m = 8;
  for (auto [order, layers] : {std::pair("gpipe", 4u), std::pair("1f1b", 4u), std::pair("zb-h1", 4u),
                               std::pair("interleaved", 8u)}) {
    const uint32_t p = 4, v = layers / p;
    TrainingNetwork network{.layers = layers, .pipelineRanks = p, .microbatches = m};
    network.order = order;
    runtime::SessionOptions options;
    options.trace = true;
    auto session = open(network, options);
    ASSERT_TRUE(session);
    train(*session, 1, 32);
    const std::vector<runtime::TraceEvent> events = session->takeTrace();
    for (uint32_t r = 0; r < p; ++r) {
      const uint32_t expected = network.order == "gpipe"  ? m
                                : network.order == "1f1b" ? std::min(p - r, m)
                                : network.order == "zb-h1"
                                    ? std::min(p, m)
                                    : std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1);
      EXPECT_EQ(peakInFlight(events, r), expected) << order << ", rank " << r;
    }
  }
}

// What is held in memory is what is in flight: the stash of a micro-batch goes when its last pass is done.
TEST_F(TrainingScheduleTest, TheStashGoesWithItsMicrobatch) {
  auto peakOf = [&](const std::string &order, uint32_t microbatches) {
    TrainingNetwork network{.microbatches = microbatches};
    network.order = order;
    auto session = open(network);
    // Micro-batches of one size.
    train(*session, 1, int64_t(microbatches) * 4096);
    // Memory that both ranks hold counts for the one that got it last.
    const auto ranks = session->statistics();
    return ranks[0].peakBytes + ranks[1].peakBytes;
  };
  // One stash more for each micro-batch of GPipe, and none more in 1F1B.
  const int64_t rows = int64_t(4096) * TrainingNetwork::kWidth * 4;
  const int64_t gpipe = peakOf("gpipe", 12) - peakOf("gpipe", 6),
                oneByOne = peakOf("1f1b", 12) - peakOf("1f1b", 6);
  EXPECT_GE(gpipe, 6 * rows);
  EXPECT_LT(oneByOne, rows);
}

TEST_F(TrainingScheduleTest, OutputsStayWhenLaterStepsChangeWeights) {
  TrainingNetwork network;
  network.givesWeight = true;
  auto session = open(network);
  ASSERT_TRUE(session);
  const at::Tensor before = train(*session, 1, 16)[0].back(), kept = before.clone();
  EXPECT_TRUE(at::equal(before, network.weights().at("w1")));
  const at::Tensor after = train(*session, 1, 16)[0].back();
  EXPECT_FALSE(at::equal(after, before));
  EXPECT_TRUE(at::equal(before, kept));
}

/// Inputs of a network that can fail.
std::vector<at::Tensor> inputsWithRow(uint64_t step, int64_t row) {
  std::vector<at::Tensor> inputs = TrainingNetwork::inputs(16, step);
  inputs.push_back(at::full({1}, row, at::kLong));
  return inputs;
}

TEST_F(TrainingScheduleTest, AStepThatFailsBeforeItsUpdateChangesNothing) {
  TrainingNetwork network{.dataParallelSize = 2};
  network.failsIn = "forward";
  auto session = open(network);
  Steps found{llvm::cantFail(session->run(inputsWithRow(0, 0)))};
  auto failed = session->run(inputsWithRow(0, 99));
  ASSERT_FALSE(bool(failed));
  EXPECT_NE(llvm::toString(failed.takeError()).find("aten::index_select"), std::string::npos);
  found.push_back(llvm::cantFail(session->run(inputsWithRow(1, 0))));
  expectClose(found, trainEagerly(network, 2, 16));
}

TEST_F(TrainingScheduleTest, AStepThatFailsInItsUpdateClosesTheSession) {
  TrainingNetwork network;
  network.failsIn = "update";
  auto session = open(network);
  auto failed = session->run(inputsWithRow(0, 99));
  ASSERT_FALSE(bool(failed));
  EXPECT_NE(llvm::toString(failed.takeError()).find("aten::index_select"), std::string::npos);
  auto next = session->run(inputsWithRow(1, 0));
  ASSERT_FALSE(bool(next));
  const std::string message = llvm::toString(next.takeError());
  EXPECT_NE(message.find("the session takes no more requests, since one failed while it changed weights"),
            std::string::npos)
      << message;
}

} // namespace
} // namespace cleave
