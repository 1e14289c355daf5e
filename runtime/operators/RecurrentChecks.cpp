//===- RecurrentChecks.cpp - Sizes that recurrent layers trust ------------===//
#include "runtime/operators/ArgumentCheckParts.h"
#include <ATen/ops/diff.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sum.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

namespace {
/// Properties of a layer besides its parameters.
struct Layer {
  /// Rows of parameters for one hidden number: four of an LSTM.
  int64_t gates;
  int64_t layers, directions;
  /// Sizes of what the first layer takes, of the hidden state, and of what it is projected to.
  int64_t inputs, hidden, projected;
};
} // namespace

/// lstm(data, batch_sizes, …) of sequences that are packed: rows of each step, fewer and fewer.
static void checkPacked(ArrayRef<IValue> arguments) {
  const at::Tensor &rows = tensorOf(arguments[0]), &steps = tensorOf(arguments[1]);
  TORCH_CHECK(steps.dim() == 1 && steps.numel() > 0 && steps.scalar_type() == at::kLong &&
                  steps.is_contiguous() && rows.dim() > 0,
              "found rows of steps ", steps.sizes(), ", expected a vector of integers without gaps");
  checkRange(steps, rows.size(0) + 1);
  checkRange(at::neg(at::diff(steps)), rows.size(0) + 1);
  TORCH_CHECK(steps.sum().item().toLong() == rows.size(0) && steps[-1].item().toLong() > 0, "found ",
              rows.size(0), " rows, of which the steps have ", steps.sum().item().toLong());
}

static void checkParameter(const at::Tensor &parameter, at::IntArrayRef expected) {
  TORCH_CHECK(parameter.defined() && parameter.sizes() == expected, "found a parameter ", parameter.sizes(),
              ", expected ", expected);
}

/// The parameters, by layer, then direction: rows that take the input, rows that take the hidden state, two
/// biases of these, and what projects the hidden state, if anything does.
static void checkParameters(ArrayRef<at::Tensor> parameters, bool hasBiases, const Layer &layer) {
  const bool isProjected = layer.projected != layer.hidden;
  const size_t each = 2 + 2 * hasBiases + isProjected;
  TORCH_CHECK(layer.layers > 0 && parameters.size() / each == size_t(layer.layers * layer.directions) &&
                  parameters.size() % each == 0,
              "found ", parameters.size(), " parameters of ", layer.layers, " layers");
  const int64_t rows = layer.gates * layer.hidden;
  for (size_t i = 0; i < parameters.size(); i += each) {
    const bool isFirst = i < each * layer.directions;
    checkParameter(parameters[i], {rows, isFirst ? layer.inputs : layer.projected * layer.directions});
    checkParameter(parameters[i + 1], {rows, layer.projected});
    for (size_t bias = 2; hasBiases && bias < 4; ++bias)
      checkParameter(parameters[i + bias], {rows});
    if (isProjected)
      checkParameter(parameters[i + each - 1], {layer.projected, layer.hidden});
  }
}

/// The hidden state; an LSTM has a second one.
static std::vector<at::Tensor> statesOf(const IValue &states, int64_t gates) {
  if (gates != 4)
    return {tensorOf(states)};
  const std::vector<at::Tensor> both = states.toTensorVector();
  TORCH_CHECK(both.size() == 2 && both[0].defined() && both[1].defined(), "found ", both.size(),
              " states, expected two");
  return both;
}

/// gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or, of packed
/// sequences, gru(data, batch_sizes, hx, params, …, bidirectional).
template <int64_t gates, bool isPacked> static void checkLayers(ArrayRef<IValue> arguments) {
  if (isPacked)
    checkPacked(arguments);
  const at::Tensor &input = tensorOf(arguments[0]);
  const ArrayRef<IValue> rest = arguments.drop_front(isPacked ? 2 : 1);
  const bool isBatchFirst = !isPacked && rest[7].toBool();
  TORCH_CHECK(input.dim() == (isPacked ? 2 : 3), "found an input ", input.sizes());
  const int64_t sequences =
      isPacked ? arguments[1].toTensor()[0].item().toLong() : input.size(isBatchFirst ? 0 : 1);
  const int64_t layers = rest[3].toInt(), directions = rest[6].toBool() ? 2 : 1;
  TORCH_CHECK(layers > 0 && layers <= int64_t(rest[1].toListRef().size()), "found ", layers, " layers of ",
              rest[1].toListRef().size(), " parameters");
  const std::vector<at::Tensor> states = statesOf(rest[0], gates);
  for (const at::Tensor &state : states)
    TORCH_CHECK(state.dim() == 3 && state.size(0) == layers * directions && state.size(1) == sequences,
                "found a state ", state.sizes(), " of ", layers, " layers and ", sequences, " sequences");
  checkParameters(rest[1].toTensorVector(), rest[2].toBool(),
                  {gates, layers, directions, input.size(-1), states.back().size(2), states.front().size(2)});
}

ArgumentCheck recurrentCheckOf(llvm::StringRef name, llvm::StringRef overload) {
  const bool isPacked = overload == "data";
  if (!isPacked && overload != "input")
    return nullptr;
  if (name == "aten::lstm")
    return isPacked ? checkLayers<4, true> : checkLayers<4, false>;
  if (name == "aten::gru")
    return isPacked ? checkLayers<3, true> : checkLayers<3, false>;
  if (name == "aten::rnn_tanh" || name == "aten::rnn_relu")
    return isPacked ? checkLayers<1, true> : checkLayers<1, false>;
  return nullptr;
}

} // namespace cleave::runtime
