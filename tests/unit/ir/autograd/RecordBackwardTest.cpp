// What libtorch's autograd records. If another version of libtorch fails here, the recorder no longer sees
// what it expects: the message says which of the things that it relies on is gone.
#include "ir/autograd/RecordBackward.h"
#include "ir/IValueConversion.h"
#include "ir/Schemas.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave {
namespace {

using testing::ElementsAre;

std::vector<std::string> namesOf(const Recording &recording, size_t first, size_t last) {
  std::vector<std::string> names;
  for (size_t i = first; i < last; ++i)
    names.push_back(recording.calls[i].irName);
  return names;
}
std::vector<std::string> forwardOf(const Recording &recording) {
  return namesOf(recording, 0, recording.numForwardCalls);
}
std::vector<std::string> backwardOf(const Recording &recording) {
  return namesOf(recording, recording.numForwardCalls, recording.calls.size());
}

Recording record(const std::string &name, const torch::jit::Stack &operands,
                 const std::vector<at::Tensor> &gradients, const std::vector<bool> &isWanted) {
  return recordBackward(*findOperator(name), operands, gradients, isWanted);
}

TEST(RecordBackwardTest, FallbackBelowAutogradSeesTheCalls) {
  Recording recording = record("aten.tanh", {at::ones({2, 3})}, {at::ones({2, 3})}, {true});
  EXPECT_THAT(forwardOf(recording), ElementsAre("aten.tanh"));
  EXPECT_THAT(backwardOf(recording), ElementsAre("aten.tanh_backward"))
      << "the key Fake is no longer below Autograd and above the backends";
  // The formula saves the result, with its number.
  EXPECT_EQ(recording.calls[1].operands[1].tensors, recording.results)
      << "what autograd saves no longer keeps the number of a tensor";
  EXPECT_EQ(recording.gradInputs, recording.calls[1].results[0].tensors);
}

TEST(RecordBackwardTest, InPlaceChangesAreFunctional) {
  Recording recording =
      record("aten.slice.Tensor", {at::ones({4, 3}), 0, 1, 3, 1}, {at::ones({2, 3})}, {true});
  for (const RecordedCall &call : recording.calls)
    EXPECT_FALSE(findSchema(call.irName)->writesAnyArgument())
        << call.irName << ": functionalization no longer stands around the recorder";
}

TEST(RecordBackwardTest, CompositeExplicitOperatorsAreNotDecomposed) {
  Recording recording =
      record("aten.layer_norm",
             {at::ones({4, 6}), std::vector<int64_t>{6}, at::ones({6}), at::ones({6}), 1e-5, true},
             {at::ones({4, 6})}, {true, true, true});
  EXPECT_THAT(forwardOf(recording), ElementsAre("aten.native_layer_norm"));
  EXPECT_THAT(backwardOf(recording), ElementsAre("aten.native_layer_norm_backward"));
}

TEST(RecordBackwardTest, GradientsThatAreNotWantedAreNotComputed) {
  Recording recording =
      record("aten.mm", {at::ones({2, 3}), at::ones({3, 4})}, {at::ones({2, 4})}, {false, true});
  EXPECT_THAT(backwardOf(recording), testing::Contains("aten.mm").Times(1));
  EXPECT_EQ(recording.gradInputs[0], -1);
}

TEST(RecordBackwardTest, ConstantsOfFormulasAreNumbers) {
  Recording recording = record("aten.mul.Scalar", {at::ones({2}), 2.5}, {at::ones({2})}, {true});
  bool found = false;
  for (const RecordedValue &operand : recording.calls.back().operands)
    found |= operand.constant.isTensor() ? operand.constant.toTensor().item<double>() == 2.5
                                         : operand.constant.isDouble() && operand.constant.toDouble() == 2.5;
  EXPECT_TRUE(found);
}

TEST(RecordBackwardTest, WhatDependsOnDataFails) {
  EXPECT_ANY_THROW(record("aten.masked_select", {at::ones({4}), at::ones({4}, at::kBool)}, {at::ones({4})},
                          {true, false}));
  // The recorder works again after a failure.
  EXPECT_EQ(record("aten.exp", {at::ones({2})}, {at::ones({2})}, {true}).numForwardCalls, 1u);
}

} // namespace
} // namespace cleave
