//===- RequestTest.cpp - What moves between ranks -------------------------===//
#include "runtime/schedule/Request.h"
#include "runtime/exchange/LocalExchange.h"
#include "tests/unit/runtime/Allocations.h"
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using Values = std::vector<c10::IValue>;

class RequestTest : public testing::Test {
protected:
  static constexpr size_t transfers = 8;

  plan::Signature signature;
  plan::Plan plan = [] {
    plan::Plan empty;
    empty.mesh = std::make_unique<plan::Mesh>();
    return empty;
  }();
  StateStore states{plan};
  std::shared_ptr<AdmissionController> admissions =
      std::make_shared<AdmissionController>(std::chrono::seconds(30), 1);
  Request request{0,
                  {},
                  Microbatches(signature, 1, {}),
                  0,
                  {0, 1},
                  admissions,
                  admissions->enter(),
                  RequestStates(states, 0, 0),
                  [](CancellationToken &cancellation) {
                    static const std::map<uint32_t, std::vector<uint32_t>> groups;
                    return std::make_shared<LocalExchange>(2, groups, transfers, 1, cancellation);
                  }};
  Exchange &exchange = request.exchange();
  MemoryAccountRef account{new MemoryAccount("test")};
};

TEST_F(RequestTest, TransfersAllocateNothing) {
  int64_t ofSender = 0;
  std::thread sender([&] {
    Values values;
    values.reserve(2);
    const int64_t before = allocationsOfThisThread();
    for (size_t transfer = 0; transfer < transfers; ++transfer) {
      values.push_back(int64_t(transfer));
      values.push_back(true);
      EXPECT_TRUE(exchange.send({transfer, 0, 1}, values));
      EXPECT_TRUE(values.empty());
    }
    ofSender = allocationsOfThisThread() - before;
  });
  Values values;
  values.reserve(2);
  const int64_t before = allocationsOfThisThread();
  for (size_t transfer = 0; transfer < transfers; ++transfer) {
    EXPECT_TRUE(exchange.receive({transfer, 0, 0}, *account, values));
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(values[0].toInt(), int64_t(transfer));
  }
  EXPECT_EQ(allocationsOfThisThread() - before, 0);
  sender.join();
  EXPECT_EQ(ofSender, 0);
}

TEST_F(RequestTest, AFailureLeavesNothingWithTheSender) {
  Values given = {int64_t(1)}, taken;
  request.cancellation.cancel("broken");
  EXPECT_FALSE(exchange.send({0, 0, 1}, given));
  EXPECT_TRUE(given.empty());
  EXPECT_FALSE(exchange.receive({0, 0, 0}, *account, taken));
  EXPECT_TRUE(taken.empty());
}

TEST_F(RequestTest, ARequestThatCannotBeMadeGivesItsRoomBack) {
  auto single = std::make_shared<AdmissionController>(std::chrono::seconds(0), 1);
  auto connect = [](CancellationToken &) -> std::shared_ptr<Exchange> { throw std::runtime_error("no way"); };
  EXPECT_THROW(Request(0, {}, Microbatches(signature, 1, {}), 0, {0}, single, single->enter(),
                       RequestStates(states, 0, 0), connect),
               std::runtime_error);
  AdmissionController::Admission admission = single->enter();
  EXPECT_TRUE(admission);
  EXPECT_FALSE(single->enter()) << "there is room for one";
  admission.reset();
  EXPECT_TRUE(single->enter());
}

} // namespace cleave::runtime
