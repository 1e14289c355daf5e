//===- StateStoreTest.cpp - Values that outlive requests ------------------===//
#include "runtime/executor/RequestStates.h"
#include "tests/unit/runtime/PlanWriter.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using testing::HasSubstr;
using testing::ThrowsMessage;

class StateStoreTest : public testing::Test {
protected:
  const plan::Plan &withStates() {
    add("rows", plan::StateScope::Sequence, 1).type->dims[1] =
        std::make_unique<plan::DimExpr>(plan::unknownDim());
    add("whole", plan::StateScope::Session, -1);
    add("sum", plan::StateScope::Step, -1);
    return *writer.plan;
  }
  plan::State &add(const char *name, plan::StateScope scope, int32_t batchDim) {
    writer.plan->states.push_back(std::make_unique<plan::State>());
    plan::State &state = *writer.plan->states.back();
    state.name = name;
    state.scope = scope;
    state.batch_dim = batchDim;
    state.type = std::make_unique<plan::TensorType>(tensorType(DType::Float, {2, 4}));
    return state;
  }
  static constexpr uint32_t rows = 0, whole = 1, sum = 2;
  static constexpr MicrobatchSlice first{0, 0, 0, 3}, second{0, 1, 3, 2};

  PlanWriter writer{{0}};
  StateStore store{withStates()};
};

TEST_F(StateStoreTest, GivesPartsTheRowsOfTheirSamples) {
  RequestStates request(store, 7, 5);
  const at::Tensor initial = at::arange(10, at::kFloat).view({2, 5});
  EXPECT_TRUE(at::equal(request.read(rows, first, initial).toTensor(), initial.narrow(1, 0, 3)));
  EXPECT_TRUE(at::equal(request.read(rows, second, initial).toTensor(), initial.narrow(1, 3, 2)));
  const at::Tensor one = at::arange(2, at::kFloat).view({2, 1});
  const at::Tensor expanded = request.read(rows, second, one).toTensor();
  EXPECT_TRUE(at::equal(expanded, one.expand({2, 2})));
  EXPECT_TRUE(expanded.is_contiguous());
  EXPECT_THAT([&] { request.read(rows, first, at::ones({2, 4})); },
              ThrowsMessage<std::exception>(HasSubstr("state rows begins with 4 rows, found a batch of 5")));
}

TEST_F(StateStoreTest, KeepsRowsBySequenceAndMicrobatch) {
  for (uint64_t sequence : {1, 2}) {
    RequestStates request(store, sequence, 5);
    request.write(rows, first, at::full({2, 3}, float(sequence)));
    request.write(rows, second, at::full({2, 2}, float(10 * sequence)));
    request.commit();
  }
  store.forget(1);
  RequestStates one(store, 1, 5), two(store, 2, 5);
  const at::Tensor zero = at::zeros({2, 1});
  EXPECT_TRUE(at::equal(one.read(rows, first, zero).toTensor(), at::zeros({2, 3})));
  EXPECT_TRUE(at::equal(two.read(rows, first, zero).toTensor(), at::full({2, 3}, 2.f)));
  EXPECT_TRUE(at::equal(two.read(rows, second, zero).toTensor(), at::full({2, 2}, 20.f)));
  EXPECT_EQ(store.batchOf(1), std::nullopt);
  EXPECT_EQ(store.batchOf(2), 5);
}

TEST_F(StateStoreTest, ForgetsRowsAlone) {
  RequestStates request(store, 0, 3);
  request.write(rows, first, at::ones({2, 3}));
  request.write(whole, first, at::ones({2, 4}));
  request.commit();
  store.forget(0);
  EXPECT_FALSE(store.find({0, 0, rows, 0}));
  EXPECT_TRUE(store.find({0, 0, whole, 0}));
  store.reset();
  EXPECT_FALSE(store.find({0, 0, whole, 0}));
}

TEST_F(StateStoreTest, AFailedRequestLeavesNothing) {
  RequestStates request(store, 0, 3);
  request.write(rows, first, at::ones({2, 3}));
  request.discard();
  request.commit();
  EXPECT_FALSE(store.find({0, 0, rows, 0}));
}

TEST_F(StateStoreTest, RefusesRowsOfOtherSamples) {
  RequestStates request(store, 0, 5);
  EXPECT_THAT(
      [&] { request.write(rows, first, at::ones({2, 2})); },
      ThrowsMessage<std::exception>(HasSubstr("state rows would not have a row for each of 3 samples")));
  EXPECT_THAT([&] { request.write(rows, first, int64_t(2)); },
              ThrowsMessage<std::exception>(HasSubstr("state rows would not have a row")));
}

TEST_F(StateStoreTest, CountsBytesAndCopiesWhatOthersReferTo) {
  RequestStates request(store, 0, 3);
  request.write(rows, first, at::ones({2, 3}));
  const at::Tensor mine = at::ones({2, 4});
  request.write(whole, first, mine);
  request.commit();
  EXPECT_EQ(store.trafficOf(0, rows).bytesWritten, 24);
  EXPECT_EQ(store.trafficOf(0, rows).bytesCopied, 0);
  EXPECT_EQ(store.trafficOf(0, whole).bytesWritten, 32);
  EXPECT_EQ(store.trafficOf(0, whole).bytesCopied, 32);
  EXPECT_FALSE(store.find({0, 0, whole, 0})->toTensor().is_alias_of(mine));
}

TEST_F(StateStoreTest, SumsLastAsLongAsARequest) {
  RequestStates request(store, 0, 0);
  for (int i = 0; i < 2; ++i)
    request.accumulate(sum, 0, at::ones({2, 4}), at::kCPU);
  EXPECT_TRUE(at::equal(request.sum(sum, 0, at::kCPU), at::full({2, 4}, 2.f)));
  request.commit();
  EXPECT_TRUE(at::equal(RequestStates(store, 0, 0).sum(sum, 0, at::kCPU), at::zeros({2, 4})));
}

} // namespace cleave::runtime
