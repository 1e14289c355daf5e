//===- Recurrent.cpp - LSTM, GRU and simple recurrent layers --------------===//
//
// lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first); gru, rnn_tanh
// and rnn_relu take a single state instead of the list [h_0, c_0]. Overloads for packed sequences: (data,
// batch_sizes, hx, params, …, bidirectional).
//
//===----------------------------------------------------------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

/// 2 × (input-hidden and hidden-hidden weights) × time × batch; pointwise operations are not counted.
static double recurrentFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0));
  if (!input || input->empty() || input->back() == 0)
    return 0;
  double weights = 0;
  for (Value operand : flatOperands(op))
    if (auto shape = shapes.shapeOf(operand); shape && shape->size() == 2)
      weights += shapes.elementsOf(operand);
  return 2.0 * weights * shapes.elementsOf(op->getOperand(0)) / input->back();
}

/// input[t, b, i] (or [b, t, i]), states[l, b, h], parameters → output[t, b, o], states: the batch can be
/// sharded, all other dimensions need replication. Nothing for packed sequences, for an input without a
/// batch, and for states in a list that is not made in the function.
static std::optional<OpShardingRule> recurrentShardingRule(OperatorOp op, const ExampleShapes &shapes) {
  const std::optional<int64_t> batchFirst = constantInt(op, "batch_first");
  const SmallVector<OptionalShape> operands = operandShapes(op, shapes), results = resultShapes(op, shapes);
  if (!batchFirst || !operands[0] || operands[0]->size() != 3)
    return std::nullopt;
  OpShardingRule rule;
  const OpShardingRule::Dim batch = rule.addDim(FactorKind::PassThrough, (*operands[0])[*batchFirst ? 0 : 1]);
  auto dimsOf = [&](const OptionalShape &shape, std::optional<unsigned> batchDim) {
    OpShardingRule::Dims dims;
    for (unsigned dim = 0; shape && dim < shape->size(); ++dim)
      dims.push_back(dim == batchDim ? batch : rule.addDim(FactorKind::NeedsReplication, (*shape)[dim]));
    return dims;
  };
  // Besides the input, only the states have rank 3.
  size_t states = 0;
  for (auto [index, shape] : llvm::enumerate(operands)) {
    const bool isState = index > 0 && shape && shape->size() == 3;
    states += isState;
    rule.operands.push_back(dimsOf(shape, index == 0 ? std::optional(*batchFirst ? 0u : 1u)
                                          : isState  ? std::optional(1u)
                                                     : std::nullopt));
  }
  for (auto [index, shape] : llvm::enumerate(results)) {
    if (!shape || shape->size() != 3)
      return std::nullopt;
    rule.results.push_back(dimsOf(shape, index == 0 && *batchFirst ? 0 : 1));
  }
  return states + 1 == results.size() ? std::optional(rule) : std::nullopt;
}

//===- Memory -------------------------------------------------------------===//

namespace {
/// Sizes of a call.
struct RecurrentSizes {
  /// Time steps, samples, input features, and hidden units.
  int64_t time, batch, inputs, hidden;
  /// `directions`: 1 or 2. `gates`: 4 of an LSTM, 3 of a GRU, 1 of others.
  int64_t layers, directions, gates;
  /// The input is batch-first and not stored time-major, so that ATen copies it, and the output's gradient.
  bool copiesInput;
  bool hasBiases, usesOneDnn;
  /// Bytes of one element.
  int64_t bytes;

  /// Input features of a layer.
  int64_t inputsOf(int64_t layer) const { return layer ? directions * hidden : inputs; }
  /// Bytes of one direction's output [time, batch, hidden].
  int64_t outputBytes() const { return time * batch * hidden * bytes; }
  int64_t inputBytes(int64_t layer) const { return time * batch * inputsOf(layer) * bytes; }
  /// Bytes of the matrices of one direction.
  int64_t matrixBytes(int64_t layer) const { return gates * hidden * (inputsOf(layer) + hidden) * bytes; }
  /// The same with one bias: the gradients of both biases are one tensor.
  int64_t weightBytes(int64_t layer) const {
    return matrixBytes(layer) + (hasBiases ? gates * hidden * bytes : 0);
  }
};
} // namespace

/// True if the steps of [batch, time, features] lie one after the other in memory.
static bool isTimeMajor(RankedTensorType type, const ExampleShapes &shapes) {
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  if (!layout || layout.getStrides().size() != 3)
    return false;
  auto evaluate = [&](unsigned dim) {
    auto stride = SymbolicDim::parse(layout.getStrides()[dim]);
    return stride ? stride->evaluate(shapes.sizes()) : std::nullopt;
  };
  const auto batch = evaluate(0), time = evaluate(1);
  return batch && time && *batch < *time;
}

/// The weights of each layer; nothing if they are not known, or do not divide into layers.
static std::optional<SmallVector<ValueRange>> weightsByLayer(OperatorOp op) {
  auto all = op.getArgument("params").getDefiningOp<ListOp>();
  const auto layers = constantInt(op, "num_layers");
  if (!all || !layers || *layers < 1 || all.getElements().empty() || all.getElements().size() % *layers)
    return std::nullopt;
  const size_t each = all.getElements().size() / *layers;
  SmallVector<ValueRange> weights;
  for (size_t i = 0; i < all.getElements().size(); i += each)
    weights.push_back(all.getElements().slice(i, each));
  return weights;
}

/// The states h_0 (and c_0); empty if they are in a list that is not made in the function.
static SmallVector<Value> statesOf(OperatorOp op) {
  const Value hx = op.getArgument("hx");
  if (auto list = hx.getDefiningOp<ListOp>())
    return SmallVector<Value>(list.getElements());
  return isa<ListType>(hx.getType()) ? SmallVector<Value>() : SmallVector<Value>{hx};
}

static std::optional<RecurrentSizes> sizesOf(OperatorOp op, const ExampleShapes &shapes) {
  const auto weights = weightsByLayer(op);
  const SmallVector<Value> states = statesOf(op);
  const auto input = shapes.shapeOf(op->getOperand(0));
  const auto state = states.empty() ? std::nullopt : shapes.shapeOf(states[0]);
  const auto weight = weights ? shapes.shapeOf(weights->front()[0]) : std::nullopt;
  const auto directions = constantInt(op, "bidirectional"), hasBiases = constantInt(op, "has_biases");
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!input || input->size() < 2 || !state || !weight || !directions || !hasBiases || !type ||
      state->size() != 3 || weight->size() != 2 || elementBytes(type.getElementType()) == 0)
    return std::nullopt;
  RecurrentSizes sizes;
  const bool isPacked = input->size() == 2, isBatchFirst = constantInt(op, "batch_first").value_or(0);
  sizes.copiesInput = isBatchFirst && !isTimeMajor(type, shapes);
  sizes.batch = (*state)[1];
  // A packed sequence [sum of lengths, features] has no time dimension; this is the mean length.
  sizes.time = isPacked ? llvm::divideCeil((*input)[0], std::max<int64_t>(1, sizes.batch))
                        : (*input)[isBatchFirst ? 1 : 0];
  sizes.inputs = input->back();
  sizes.hidden = weight->front() / (op.getBaseName() == "aten.lstm"  ? 4
                                    : op.getBaseName() == "aten.gru" ? 3
                                                                     : 1);
  sizes.gates = weight->front() / std::max<int64_t>(1, sizes.hidden);
  sizes.layers = weights->size();
  sizes.hasBiases = *hasBiases;
  sizes.directions = *directions ? 2 : 1;
  sizes.bytes = elementBytes(type.getElementType());
  // ATen uses oneDNN for an LSTM of at most 32 bits that is neither packed nor projected. It decomposes other
  // layers into matrix products and pointwise operators.
  sizes.usesOneDnn = sizes.gates == 4 && !isPacked && sizes.hidden == state->back() && sizes.bytes <= 4;
  return sizes;
}

//===- oneDNN 3.10, src/cpu/rnn/rnn_utils.{h,c}pp -------------------------===//

/// get_good_ld, the leading dimension in elements: rows start at multiples of 64 bytes; a multiple of 256
/// elements gets 64 bytes more, against 4K aliasing.
static int64_t leadingDim(int64_t elements, int64_t bytes) {
  const int64_t row = llvm::alignTo(elements, 64 / bytes);
  return row % 256 == 0 ? row + 64 / bytes : row;
}

/// Rounds up to a multiple of 4096 bytes.
static int64_t alignToPage(int64_t bytes) { return llvm::alignTo(bytes, 4096); }

/// Bytes of scratchpad besides the buffers below, approximately; measured.
static constexpr int64_t kScratchOverhead = 7500;

namespace {
/// Bytes of one direction of one layer (set_offsets, set_workspace_sizes).
struct OneDnnLayer {
  OneDnnLayer(const RecurrentSizes &sizes, int64_t layer)
      : sizes(sizes), inputs(sizes.inputsOf(layer)),
        gatesLeadingDim(leadingDim(4 * sizes.hidden, sizes.bytes)),
        statesLeadingDim(leadingDim(std::max(inputs, sizes.hidden), sizes.bytes)) {}

  /// Saved by the forward pass: gates and cell outputs of all steps; hidden states and the gradients of layer
  /// and of iteration; cell states and their gradients, in float32.
  int64_t saved() const {
    const int64_t rows = sizes.time * sizes.batch, states = 2 * (sizes.time + 1) * sizes.batch;
    return alignToPage(rows * gatesLeadingDim * sizes.bytes) +
           alignToPage(rows * leadingDim(sizes.hidden, sizes.bytes) * sizes.bytes) +
           3 * alignToPage(states * statesLeadingDim * sizes.bytes) +
           2 * alignToPage(states * sizes.hidden * int64_t(sizeof(float)));
  }
  /// Scratchpad in training: preactivations of the gates at all steps.
  int64_t trainingScratch() const {
    return alignToPage(sizes.time * sizes.batch * gatesLeadingDim * sizes.bytes) +
           alignToPage(2 * sizes.batch * leadingDim(sizes.hidden, sizes.bytes) * sizes.bytes) +
           kScratchOverhead;
  }
  /// Scratchpad in inference: states of all steps, gates of one.
  int64_t inferenceScratch() const {
    const int64_t states = 2 * (sizes.time + 1) * sizes.batch;
    return alignToPage(states * statesLeadingDim * sizes.bytes) + alignToPage(states * sizes.hidden * 4) +
           alignToPage(sizes.batch * gatesLeadingDim * sizes.bytes) +
           alignToPage(sizes.batch * leadingDim(sizes.hidden, sizes.bytes) * sizes.bytes) + kScratchOverhead;
  }
  /// Weights reordered for inference: the hidden units of each gate padded to a multiple of 64.
  int64_t inferenceWeights() const {
    return (inputs + sizes.hidden) * 4 * llvm::alignTo(sizes.hidden, 64) * sizes.bytes;
  }
  int64_t trainingWeights() const { return (inputs + sizes.hidden) * gatesLeadingDim * sizes.bytes; }
  /// Weights reordered for the backward pass, and their gradients in padded rows where rows need padding.
  int64_t backwardWeights() const {
    const int64_t copied = 4 * sizes.hidden *
                           (leadingDim(inputs, sizes.bytes) + leadingDim(sizes.hidden, sizes.bytes)) *
                           sizes.bytes;
    return copied + (gatesLeadingDim == 4 * sizes.hidden ? 0 : trainingWeights());
  }

  const RecurrentSizes &sizes;
  const int64_t inputs, gatesLeadingDim, statesLeadingDim;
};
} // namespace

/// Peak bytes during the forward pass, results included.
static int64_t oneDnnForwardPeak(const RecurrentSizes &sizes) {
  const int64_t copied = sizes.copiesInput ? sizes.inputBytes(0) : 0;
  int64_t peak = 0;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const OneDnnLayer own(sizes, layer);
    // Live outputs: this layer's and the previous one's. A bidirectional layer also holds both outputs of the
    // previous one before their concatenation.
    const int64_t outputs = (sizes.directions == 2 ? 2 + 3 * (layer > 0) : 1 + (layer > 0));
    // Without biases, ATen gives oneDNN copies of the matrices.
    peak = std::max(peak, copied + outputs * sizes.outputBytes() + own.inferenceWeights() +
                              (sizes.hasBiases ? 0 : sizes.matrixBytes(layer)) + own.inferenceScratch());
  }
  return peak;
}

/// Peak bytes during forward and backward of all layers, results included.
static int64_t oneDnnTrainingPeak(const RecurrentSizes &sizes) {
  int64_t live = sizes.copiesInput ? sizes.inputBytes(0) : 0, peak = 0;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const OneDnnLayer own(sizes, layer);
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      // Without biases, ATen gives oneDNN copies of the matrices.
      live += own.saved() + sizes.outputBytes() + (sizes.hasBiases ? 0 : sizes.matrixBytes(layer));
      peak = std::max(peak, live + own.trainingWeights() + own.trainingScratch());
    }
    // The concatenation of both directions.
    live += sizes.directions == 2 ? 2 * sizes.outputBytes() : 0;
  }
  // Backward, last layer first. The incoming gradient is copied if it is a slice of a wider tensor.
  for (int64_t layer = sizes.layers; layer-- > 0;) {
    const OneDnnLayer own(sizes, layer);
    const bool copies = sizes.directions == 2 || (sizes.copiesInput && layer + 1 == sizes.layers);
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      live += sizes.inputBytes(layer) + sizes.weightBytes(layer);
      peak = std::max(peak, live + own.backwardWeights() + own.trainingScratch() +
                                (copies ? sizes.outputBytes() : 0));
      // The saved tensors are freed; the input's gradients of both directions are added.
      live -= own.saved() + (sizes.hasBiases ? 0 : sizes.matrixBytes(layer)) +
              (direction ? sizes.inputBytes(layer) : 0);
    }
    live -= layer + 1 < sizes.layers ? sizes.inputBytes(layer + 1) : 0;
  }
  return peak;
}

//===- ATen, aten/src/ATen/native/RNN.cpp ---------------------------------===//

/// Peak bytes of the forward pass, results included, in outputs of one direction: the preactivations of all
/// gates at once, one more product, the outputs (of two layers, where there are several) and, of two
/// directions, their concatenation and the reversed input. Measured with torch 2.11.
static int64_t composedForwardPeak(const RecurrentSizes &sizes) {
  const int64_t each =
      sizes.gates + 1 + (sizes.layers > 1 ? 2 : 1) * sizes.directions + 3 * (sizes.directions - 1);
  return each * sizes.outputBytes();
}

/// Peak bytes of forward and backward, results included: when the forward pass ends, for which autograd saves
/// for each step, layer and direction the equivalent of 8 outputs (LSTM, GRU) or 2 (others), or when the last
/// gradients are made. Measured with torch 2.11.
/// \param inputGradientBytes  0 if that gradient is not wanted.
static int64_t composedTrainingPeak(const RecurrentSizes &sizes, int64_t inputGradientBytes) {
  const int64_t calls = sizes.layers * sizes.directions, joined = 2 * (sizes.directions - 1);
  int64_t copied = 0, gradients = inputGradientBytes;
  if (sizes.copiesInput)
    copied = sizes.inputBytes(0) + (sizes.directions - 1) * sizes.outputBytes();
  for (int64_t layer = 0; layer < sizes.layers; ++layer)
    gradients += sizes.directions * sizes.weightBytes(layer);
  const int64_t atEnd = gradients + sizes.directions * (sizes.gates + 1) * sizes.outputBytes();
  if (sizes.gates == 1)
    return std::max(atEnd, (2 * calls + 1 + joined) * sizes.outputBytes() + copied +
                               sizes.weightBytes(sizes.layers - 1));
  return std::max(atEnd, (8 * calls + sizes.gates + joined) * sizes.outputBytes() + copied);
}

static int64_t forwardWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t) {
  const auto sizes = sizesOf(op, shapes);
  if (!sizes)
    return 0;
  const int64_t peak = sizes->usesOneDnn ? oneDnnForwardPeak(*sizes) : composedForwardPeak(*sizes);
  return std::max<int64_t>(0, peak - shapes.bytesOf(op->getResult(0)));
}

static std::optional<int64_t> autogradWorkspace(OperatorOp op, const ExampleShapes &shapes) {
  auto vjp = op->getParentOfType<VjpOp>();
  const auto sizes = sizesOf(op, shapes);
  if (!vjp || !sizes)
    return std::nullopt;
  int64_t results = 0;
  for (Value result : vjp.getResults())
    results += shapes.bytesOf(result);
  const unsigned gradients = vjp.getNumResults() - vjp.getGradients().size();
  auto input = dyn_cast<BlockArgument>(op->getOperand(0));
  const bool wantsInput = input && input.getArgNumber() < gradients;
  const int64_t peak = sizes->usesOneDnn
                           ? oneDnnTrainingPeak(*sizes)
                           : composedTrainingPeak(*sizes, wantsInput ? sizes->inputBytes(0) : 0);
  return std::max<int64_t>(0, peak - results);
}

//===- Gradients ----------------------------------------------------------===//

namespace {
/// A recurrent call as calls that draw nothing, since the backward pass runs them again: without dropout
/// where that has no effect; otherwise one call per layer with `aten.dropout` between them, as torch.nn.LSTM
/// defines it.
class SeparateLayers {
public:
  SeparateLayers(OperatorOp op, OpBuilder &builder) : op(op), builder(builder) {}
  SmallVector<Value> build();

private:
  Value call(StringRef name, ValueRange operands) {
    return OperatorOp::create(builder, op->getLoc(), name, operands,
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  }
  Value integer(int64_t value) {
    return builder.create<ConstantOp>(op->getLoc(), builder.getI64Type(), builder.getI64IntegerAttr(value));
  }
  Value list(ValueRange items) {
    const Type type = ListType::get(builder.getContext(), UnknownTensorType::get(builder.getContext()));
    return builder.create<ListOp>(op->getLoc(), type, items);
  }
  /// The call with other operands, by the names of the schema, and without dropout.
  Operation *withOperands(std::initializer_list<std::pair<StringRef, Value>> others);

  OperatorOp op;
  OpBuilder &builder;
};
} // namespace

Operation *SeparateLayers::withOperands(std::initializer_list<std::pair<StringRef, Value>> others) {
  const Value zero =
      builder.create<ConstantOp>(op->getLoc(), builder.getF64Type(), builder.getF64FloatAttr(0));
  Operation *made = builder.clone(*op);
  for (unsigned i = 0; i < made->getNumOperands(); ++i) {
    const StringRef name = op.getArgumentName(i);
    if (name == "dropout")
      made->setOperand(i, zero);
    for (const auto &[other, value] : others)
      if (name == other)
        made->setOperand(i, value);
  }
  return made;
}

SmallVector<Value> SeparateLayers::build() {
  auto dropout = dyn_cast_or_null<FloatAttr>(op.getConstantArgument("dropout"));
  const auto isBidirectional = constantInt(op, "bidirectional"), isTrained = constantInt(op, "train");
  const auto weights = weightsByLayer(op);
  const SmallVector<Value> states = statesOf(op);
  if (!dropout || !isBidirectional || !weights || states.empty())
    return {};
  // Dropout has no effect in evaluation, nor with a single layer. cuDNN has gradients in training alone.
  if (!isRandom(op) || weights->size() == 1) {
    if (dropout.getValue().isZero() && isTrained == 1)
      return {};
    return withOperands({{"train", builder.create<ConstantOp>(op->getLoc(), builder.getI1Type(),
                                                              builder.getBoolAttr(true))}})
        ->getResults();
  }
  const int64_t directions = *isBidirectional ? 2 : 1;
  const StringRef inputName = op.getArgumentName(0);
  Value input = op->getOperand(0);
  SmallVector<SmallVector<Value>> finalStates(states.size());
  for (auto [i, ofLayer] : llvm::enumerate(*weights)) {
    if (i)
      input = call("aten.dropout", {input, op.getArgument("dropout"), op.getArgument("train")});
    const auto layerStates = llvm::map_to_vector(states, [&](Value state) {
      return call("aten.slice.Tensor",
                  {state, integer(0), integer(i * directions), integer((i + 1) * directions), integer(1)});
    });
    Operation *layer = withOperands(
        {{inputName, input},
         {"hx", isa<ListType>(op.getArgument("hx").getType()) ? list(layerStates) : layerStates[0]},
         {"params", list(ofLayer)},
         {"num_layers", integer(1)}});
    input = layer->getResult(0);
    for (auto [state, values] : llvm::zip(layer->getResults().drop_front(), finalStates))
      values.push_back(state);
  }
  SmallVector<Value> results{input};
  for (const SmallVector<Value> &values : finalStates)
    results.push_back(call("aten.cat", {list(values), integer(0)}));
  return results;
}

static SmallVector<Value> separateLayers(OperatorOp op, OpBuilder &builder) {
  return SeparateLayers(op, builder).build();
}

void addRecurrent(SemanticsTable &table) {
  table.add({"aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu"},
            {.hasStaticResultTypes = true,
             .dropProbability = "dropout",
             .flops = recurrentFlops,
             .workspaceBytes = forwardWorkspace,
             .shardingRule = recurrentShardingRule,
             .differentiableForm = separateLayers,
             .isDifferentiatedByAutograd = true,
             .autogradBytes = autogradWorkspace});
}

} // namespace cleave
