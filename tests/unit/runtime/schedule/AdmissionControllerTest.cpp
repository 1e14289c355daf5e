//===- AdmissionControllerTest.cpp - Many requests from many threads ------===//
#include "runtime/schedule/AdmissionController.h"
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <atomic>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace cleave::runtime {

/// Bytes of this process that are in memory.
static int64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class AdmissionControllerTest : public PlanTest {
protected:
  static constexpr int clients = 8;

  /// Sends `requests` in all, `make(client, i)` the i-th of each client, and counts the answers that are the
  /// model's.
  /// \param ofLargest  how far a value may be off beside 1e-5, as a share of the largest one.
  void serve(Session &session, const TwoLayers &model, int requests,
             llvm::function_ref<at::Tensor(int client, int i)> make, double ofLargest = 0) {
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client)
      threads.emplace_back([&, client] {
        for (int i = 0; i < requests / clients; ++i) {
          const at::Tensor x = make(client, i), expected = model.expected(x);
          auto outputs = session.run({x});
          const double absolute = 1e-5 + ofLargest * expected.abs().max().item<double>();
          right += outputs && at::allclose((*outputs)[0], expected, 1e-5, absolute);
          if (++done == requests / 10)
            afterATenth = residentBytes();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  std::atomic<int> done{0}, right{0};
  /// What the process took when a tenth was done.
  std::atomic<int64_t> afterATenth{0};
};

TEST_F(AdmissionControllerTest, LetsOneRequestOfASequenceIn) {
  AdmissionController admissions(std::chrono::seconds(0), 3);
  AdmissionController::Admission one = admissions.enter(1), two = admissions.enter(2);
  EXPECT_TRUE(one && two);
  EXPECT_FALSE(admissions.enter(1));
  one.reset();
  one = admissions.enter(1);
  EXPECT_TRUE(one);
  AdmissionController::Admission three = admissions.enter();
  EXPECT_TRUE(three);
  EXPECT_FALSE(admissions.enter(4)) << "there is room for three";
}

TEST_F(AdmissionControllerTest, LetsNobodyInBesideOneThatIsAlone) {
  AdmissionController admissions(std::chrono::seconds(0), 3);
  AdmissionController::Admission one = admissions.enter();
  EXPECT_FALSE(admissions.enterAlone());
  one.reset();
  AdmissionController::Admission alone = admissions.enterAlone();
  EXPECT_TRUE(alone);
  EXPECT_FALSE(admissions.enter());
  alone.reset();
  EXPECT_TRUE(admissions.enter());
}

TEST_F(AdmissionControllerTest, WhoWaitsToBeAloneIsNotPassedBy) {
  AdmissionController admissions(std::chrono::seconds(30), 3);
  AdmissionController::Admission one = admissions.enter();
  std::atomic<bool> isIn{false};
  std::thread waiting([&] { isIn = bool(admissions.enterAlone()); });
  std::thread later([&] { EXPECT_TRUE(admissions.enter()); });
  one.reset();
  waiting.join();
  later.join();
  EXPECT_TRUE(isIn);
}

TEST_F(AdmissionControllerTest, TakesRequestsFromManyThreads) {
  TwoLayers model;
  serve(*open(model.writer), model, 160,
        [](int client, int i) { return at::full({1 + i % 3, 8}, client + 0.1 * i); });
  EXPECT_EQ(right, 160);
}

TEST_F(AdmissionControllerTest, ServesTenThousandRequestsInTheMemoryOfAThousand) {
  TwoLayers model;
  auto session = open(model.writer);
  serve(*session, model, 10000,
        [](int client, int i) { return at::full({1 + i % 7, 8}, client + 0.001 * i); });
  EXPECT_EQ(right, 10000);
  EXPECT_LE(residentBytes(), afterATenth + afterATenth / 100);
}

TEST_F(AdmissionControllerTest, ServesMicrobatchesOfLargeProductsInFlatMemory) {
  // 65 to 67 rows a micro-batch: enough for oneDNN's product (runtime/operators/CpuKernels, 4,000,000
  // multiplications).
  TwoLayers model(128, 512);
  model.writer.splitBatch(2);
  auto session = open(model.writer);
  serve(
      *session, model, 2000,
      [](int client, int i) { return at::full({130 + i % 5, 128}, client + 0.001 * i); }, 1e-6);
  EXPECT_EQ(right, 2000);
  EXPECT_LE(residentBytes(), afterATenth + afterATenth / 100);
}

} // namespace cleave::runtime
