// Shapes of recurrent layers against what the CPU's kernels give.
#include "SameTypes.h"

namespace cleave {
namespace {

using at::Tensor;

constexpr int64_t kInputs = 7, kHidden = 6, kTime = 3, kBatch = 4;

struct Form {
  const char *name;
  /// Rows of the weights, in hidden features.
  int64_t gates;
  int64_t layers = 1;
  bool isBidirectional = false, hasBiases = true;
  int64_t projected = 0;
  at::ScalarType dtype = at::kFloat;

  int64_t states() const { return layers * (isBidirectional ? 2 : 1); }
  int64_t outputs() const { return projected ? projected : kHidden; }
};

/// Weights as torch.nn has them: of the input, of the hidden state, biases, the projection.
c10::List<Tensor> weightsOf(const Form &form) {
  c10::List<Tensor> weights;
  auto add = [&](at::IntArrayRef shape) { weights.push_back(at::zeros(shape, form.dtype)); };
  int64_t directions = form.isBidirectional ? 2 : 1;
  for (int64_t i = 0; i < form.states(); ++i) {
    add({form.gates * kHidden, i < directions ? kInputs : directions * form.outputs()});
    add({form.gates * kHidden, form.outputs()});
    for (int bias = 0; bias < 2 && form.hasBiases; ++bias)
      add({form.gates * kHidden});
    if (form.projected)
      add({form.projected, kHidden});
  }
  return weights;
}

/// The hidden state, and an LSTM's cell state.
c10::IValue statesOf(const Form &form, int64_t batch) {
  Tensor hidden = at::zeros({form.states(), batch, form.outputs()}, form.dtype);
  if (form.gates != 4)
    return hidden;
  return c10::List<Tensor>({hidden, at::zeros({form.states(), batch, kHidden}, form.dtype)});
}

void expectSameSequences(const Form &form) {
  for (bool isBatchFirst : {false, true})
    for (int64_t batch : {kBatch, int64_t(1)})
      for (const Tensor &input : layoutsOf(isBatchFirst ? std::vector<int64_t>{batch, kTime, kInputs}
                                                        : std::vector<int64_t>{kTime, batch, kInputs},
                                           form.dtype))
        expectSameTypes((std::string(form.name) + ".input").c_str(),
                        {input, statesOf(form, batch), weightsOf(form), form.hasBiases, form.layers, 0.0,
                         false, form.isBidirectional, isBatchFirst});
}

void expectSamePacked(const Form &form) {
  Tensor lengths = at::tensor({4, 3, 3, 1}, at::kLong);
  expectSameTypes((std::string(form.name) + ".data").c_str(),
                  {at::zeros({11, kInputs}, form.dtype), lengths, statesOf(form, kBatch), weightsOf(form),
                   form.hasBiases, form.layers, 0.0, false, form.isBidirectional});
}

void expectSame(Form form) {
  for (int64_t layers : {1, 2})
    for (bool isBidirectional : {false, true})
      for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        form.layers = layers;
        form.isBidirectional = isBidirectional;
        form.hasBiases = layers > 1;
        form.dtype = dtype;
        expectSameSequences(form);
        expectSamePacked(form);
      }
}

TEST(RecurrentMetaKernelsTest, Lstm) { expectSame({"aten.lstm", 4}); }

TEST(RecurrentMetaKernelsTest, LstmWithProjections) {
  Form form{"aten.lstm", 4};
  form.projected = 3;
  expectSame(form);
}

TEST(RecurrentMetaKernelsTest, Gru) { expectSame({"aten.gru", 3}); }

TEST(RecurrentMetaKernelsTest, SimpleRecurrence) {
  expectSame({"aten.rnn_tanh", 1});
  expectSame({"aten.rnn_relu", 1});
}

} // namespace
} // namespace cleave
