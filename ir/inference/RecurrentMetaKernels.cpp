//===- RecurrentMetaKernels.cpp - Shapes of LSTM, GRU and simple RNNs -----===//
//
// ATen has no meta kernels for these layers, and would run them step by step through the sequence.
//
//===----------------------------------------------------------------------===//
#include "ir/inference/MetaKernels.h"
#include <ATen/ATen.h>

namespace cleave {

using at::Tensor;
using at::TensorList;

/// Arguments of a layer besides its tensors.
namespace {
struct Form {
  int64_t layers;
  bool isBidirectional;
  int64_t directions() const { return isBidirectional ? 2 : 1; }
};
} // namespace

/// The hidden state is [layers·directions, batch, features]; the first weight [gates·hidden, inputs].
static void check(const Tensor &input, const Tensor &hidden, TensorList weights, int64_t batch, Form form) {
  TORCH_CHECK(!weights.empty() && weights[0].dim() == 2 && weights[0].size(1) == input.size(-1),
              "a layer of ", weights.empty() ? 0 : weights[0].size(-1), " features is given ",
              input.size(-1));
  TORCH_CHECK(hidden.dim() == 3 && hidden.size(0) == form.layers * form.directions() &&
                  hidden.size(1) == batch,
              "a hidden state of shape ", hidden.sizes(), " meets ", form.layers * form.directions(),
              " layers and ", batch, " samples");
}

/// [time, batch, features], or [batch, time, features] as a view of that.
static Tensor sequence(const Tensor &input, const Tensor &hidden, TensorList weights, Form form,
                       bool isBatchFirst) {
  TORCH_CHECK(input.dim() == 3, "a sequence has 3 dimensions, found ", input.dim());
  int64_t time = input.size(isBatchFirst ? 1 : 0), batch = input.size(isBatchFirst ? 0 : 1);
  TORCH_CHECK(time > 0, "a sequence has no positions");
  check(input, hidden, weights, batch, form);
  Tensor result = at::empty({time, batch, hidden.size(2) * form.directions()}, input.options());
  return isBatchFirst ? result.transpose(0, 1) : result;
}

/// Steps of all samples, packed: [steps, features].
static Tensor packed(const Tensor &data, const Tensor &hidden, TensorList weights, Form form) {
  TORCH_CHECK(data.dim() == 2, "packed positions have 2 dimensions, found ", data.dim());
  check(data, hidden, weights, hidden.size(1), form);
  return at::empty({data.size(0), hidden.size(2) * form.directions()}, data.options());
}

static Tensor last(const Tensor &input, const Tensor &state) {
  return at::empty(state.sizes(), input.options());
}

static std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor &input, TensorList states, TensorList weights,
                                               bool, int64_t layers, double, bool, bool isBidirectional,
                                               bool isBatchFirst) {
  TORCH_CHECK(states.size() == 2, "an LSTM has two states, found ", states.size());
  Form form{layers, isBidirectional};
  return {sequence(input, states[0], weights, form, isBatchFirst), last(input, states[0]),
          last(input, states[1])};
}

static std::tuple<Tensor, Tensor, Tensor> packedLstm(const Tensor &data, const Tensor &, TensorList states,
                                                     TensorList weights, bool, int64_t layers, double, bool,
                                                     bool isBidirectional) {
  TORCH_CHECK(states.size() == 2, "an LSTM has two states, found ", states.size());
  Form form{layers, isBidirectional};
  return {packed(data, states[0], weights, form), last(data, states[0]), last(data, states[1])};
}

static std::tuple<Tensor, Tensor> recurrent(const Tensor &input, const Tensor &state, TensorList weights,
                                            bool, int64_t layers, double, bool, bool isBidirectional,
                                            bool isBatchFirst) {
  return {sequence(input, state, weights, {layers, isBidirectional}, isBatchFirst), last(input, state)};
}

static std::tuple<Tensor, Tensor> packedRecurrent(const Tensor &data, const Tensor &, const Tensor &state,
                                                  TensorList weights, bool, int64_t layers, double, bool,
                                                  bool isBidirectional) {
  return {packed(data, state, weights, {layers, isBidirectional}), last(data, state)};
}

void addRecurrent(CompositeKernels &kernels) {
  auto add = [&](llvm::StringRef irName, auto *function) {
    kernels[irName] = c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
  };
  add("aten.lstm.input", lstm);
  add("aten.lstm.data", packedLstm);
  for (const char *name : {"aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"})
    add(name, recurrent);
  for (const char *name : {"aten.gru.data", "aten.rnn_tanh.data", "aten.rnn_relu.data"})
    add(name, packedRecurrent);
}

} // namespace cleave
