//===- Recurrent.cpp - LSTM, GRU and simple recurrent layers --------------===//
//
// lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first); gru and rnn
// take one state for the list of two. Of packed sequences: (data, batch_sizes, hx, params, …, bidirectional).
//
//===----------------------------------------------------------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

/// Every step multiplies all weight matrices, those of inputs and of the hidden state.
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

/// input[t, b, i] (or [b, t, i]), states[l, b, h], parameters → output[t, b, o], states: the batch passes
/// through. Nothing for packed sequences, for an input without a batch, and for states in a list made
/// elsewhere.
static std::optional<OpShardingRule> recurrent(OperatorOp op, const ExampleShapes &shapes) {
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
  // Of the operands, states alone have three dimensions, besides the input.
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
  int64_t time, batch, inputs, hidden;
  int64_t layers, directions, gates;
  /// Steps lie apart in memory, so that the input is copied, and the gradient of the output, too.
  bool copiesInput;
  bool usesOneDnn;
  /// Of one element.
  int64_t bytes;

  /// Features that layer `layer` takes.
  int64_t inputsOf(int64_t layer) const { return layer ? directions * hidden : inputs; }
  /// Bytes of what one direction gives, at all steps.
  int64_t outputBytes() const { return time * batch * hidden * bytes; }
  int64_t inputBytes(int64_t layer) const { return time * batch * inputsOf(layer) * bytes; }
  int64_t weightBytes(int64_t layer) const { return gates * hidden * (inputsOf(layer) + hidden + 1) * bytes; }
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

static std::optional<RecurrentSizes> sizesOf(OperatorOp op, const ExampleShapes &shapes) {
  auto pair = op.getArgument("hx").getDefiningOp<ListOp>();
  auto weights = op.getArgument("params").getDefiningOp<ListOp>();
  const auto input = shapes.shapeOf(op->getOperand(0));
  const auto state = shapes.shapeOf(pair ? pair.getElements()[0] : op.getArgument("hx"));
  const auto weight = weights ? shapes.shapeOf(weights.getElements()[0]) : std::nullopt;
  const auto layers = constantInt(op, "num_layers"), directions = constantInt(op, "bidirectional");
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!input || !state || !weight || !layers || !directions || !type || state->size() != 3 ||
      weight->size() != 2 || state->back() == 0)
    return std::nullopt;
  RecurrentSizes sizes;
  const bool isPacked = input->size() == 2, isBatchFirst = constantInt(op, "batch_first").value_or(0);
  sizes.copiesInput = isBatchFirst && !isTimeMajor(type, shapes);
  sizes.batch = (*state)[1];
  // Steps of packed sequences have fewer and fewer samples; on average there are so many steps.
  sizes.time = isPacked ? llvm::divideCeil((*input)[0], std::max<int64_t>(1, sizes.batch))
                        : (*input)[isBatchFirst ? 1 : 0];
  sizes.inputs = input->back();
  sizes.hidden = weight->front() / (op.getBaseName() == "aten.lstm"  ? 4
                                    : op.getBaseName() == "aten.gru" ? 3
                                                                     : 1);
  sizes.gates = weight->front() / std::max<int64_t>(1, sizes.hidden);
  sizes.layers = *layers;
  sizes.directions = *directions ? 2 : 1;
  sizes.bytes = elementBytes(type.getElementType());
  // ATen calls oneDNN for what it supports, and composes others of products and pointwise operators.
  sizes.usesOneDnn = sizes.gates == 4 && !isPacked && sizes.hidden == state->back() && sizes.bytes <= 4;
  return sizes;
}

//===- oneDNN 3.10, src/cpu/rnn/rnn_utils.{h,c}pp -------------------------===//

/// get_good_ld: rows begin at multiples of 64 bytes, but not of 256 elements.
static int64_t paddedRow(int64_t elements, int64_t bytes) {
  const int64_t row = llvm::alignTo(elements, 64 / bytes);
  return row % 256 == 0 ? row + 64 / bytes : row;
}

static int64_t pages(int64_t bytes) { return llvm::alignTo(bytes, 4096); }

/// Descriptors of the kernels, about.
static constexpr int64_t kScratchOverhead = 7500;

namespace {
/// Bytes of one layer, one direction (set_offsets, set_workspace_sizes).
struct OneDnnLayer {
  OneDnnLayer(const RecurrentSizes &sizes, int64_t layer)
      : sizes(sizes), inputs(sizes.inputsOf(layer)), gateRow(paddedRow(4 * sizes.hidden, sizes.bytes)),
        stateRow(paddedRow(std::max(inputs, sizes.hidden), sizes.bytes)) {}

  /// What the forward pass saves: gates, hidden and cell states of all steps, and room for their gradients.
  int64_t saved() const {
    const int64_t rows = sizes.time * sizes.batch, states = 2 * (sizes.time + 1) * sizes.batch;
    return pages(rows * gateRow * sizes.bytes) +
           pages(rows * paddedRow(sizes.hidden, sizes.bytes) * sizes.bytes) +
           3 * pages(states * stateRow * sizes.bytes) + 2 * pages(states * sizes.hidden * 4);
  }
  /// Gates of all steps, before their nonlinearities.
  int64_t trainingScratch() const {
    return pages(sizes.time * sizes.batch * gateRow * sizes.bytes) +
           pages(2 * sizes.batch * paddedRow(sizes.hidden, sizes.bytes) * sizes.bytes) + kScratchOverhead;
  }
  int64_t inferenceScratch() const {
    const int64_t states = 2 * (sizes.time + 1) * sizes.batch;
    return pages(states * stateRow * sizes.bytes) + pages(states * sizes.hidden * 4) +
           pages(sizes.batch * gateRow * sizes.bytes) +
           pages(sizes.batch * paddedRow(sizes.hidden, sizes.bytes) * sizes.bytes) + kScratchOverhead;
  }
  /// The weights in the layout of inference: blocks of 64 numbers of each gate.
  int64_t inferenceWeights() const {
    return (inputs + sizes.hidden) * 4 * llvm::alignTo(sizes.hidden, 64) * sizes.bytes;
  }
  int64_t trainingWeights() const { return (inputs + sizes.hidden) * gateRow * sizes.bytes; }
  /// The weights in the layout of the backward pass and, in padded rows, their gradients.
  int64_t backwardWeights() const {
    const int64_t copied = 4 * sizes.hidden *
                           (paddedRow(inputs, sizes.bytes) + paddedRow(sizes.hidden, sizes.bytes)) *
                           sizes.bytes;
    return copied + (gateRow == 4 * sizes.hidden ? 0 : trainingWeights());
  }

  const RecurrentSizes &sizes;
  const int64_t inputs, gateRow, stateRow;
};
} // namespace

/// Most bytes while the forward pass runs, its results included.
static int64_t oneDnnForward(const RecurrentSizes &sizes) {
  const int64_t copied = sizes.copiesInput ? sizes.inputBytes(0) : 0;
  int64_t most = 0;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const OneDnnLayer own(sizes, layer);
    // Outputs: its own, of the layer below, and, of two directions, before they are joined, too.
    const int64_t outputs = (sizes.directions == 2 ? 2 + 3 * (layer > 0) : 1 + (layer > 0));
    most = std::max(most,
                    copied + outputs * sizes.outputBytes() + own.inferenceWeights() + own.inferenceScratch());
  }
  return most;
}

/// Most bytes while the layers run forward and back, all their results included.
static int64_t oneDnnTraining(const RecurrentSizes &sizes) {
  int64_t kept = sizes.copiesInput ? sizes.inputBytes(0) : 0, most = 0;
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const OneDnnLayer own(sizes, layer);
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      kept += own.saved() + sizes.outputBytes();
      most = std::max(most, kept + own.trainingWeights() + own.trainingScratch());
    }
    kept += sizes.directions == 2 ? 2 * sizes.outputBytes() : 0;
  }
  // The last layer is first; the gradient that comes in is copied where it is a part of a wider one.
  for (int64_t layer = sizes.layers; layer-- > 0;) {
    const OneDnnLayer own(sizes, layer);
    const bool copies = sizes.directions == 2 || (sizes.copiesInput && layer + 1 == sizes.layers);
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      kept += sizes.inputBytes(layer) + sizes.weightBytes(layer);
      most = std::max(most, kept + own.backwardWeights() + own.trainingScratch() +
                                (copies ? sizes.outputBytes() : 0));
      kept -= own.saved() + (direction ? sizes.inputBytes(layer) : 0);
    }
    kept -= layer + 1 < sizes.layers ? sizes.inputBytes(layer + 1) : 0;
  }
  return most;
}

//===- ATen, aten/src/ATen/native/RNN.cpp ---------------------------------===//

/// The same of layers that ATen composes, where autograd saves gates and products of each step.
static int64_t composedForward(const RecurrentSizes &sizes) {
  const int64_t each =
      sizes.gates + 1 + (sizes.layers > 1 ? 2 : 1) * sizes.directions + 3 * (sizes.directions - 1);
  return each * sizes.outputBytes();
}

static int64_t composedTraining(const RecurrentSizes &sizes) {
  const int64_t calls = sizes.layers * sizes.directions, joined = 2 * (sizes.directions - 1);
  const int64_t copied = sizes.copiesInput ? sizes.inputBytes(0) : 0;
  if (sizes.gates == 1)
    return (2 * calls + 1 + joined) * sizes.outputBytes() + copied + sizes.weightBytes(sizes.layers - 1);
  return (8 * calls + sizes.gates + joined) * sizes.outputBytes() + copied;
}

static int64_t forwardWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t) {
  const auto sizes = sizesOf(op, shapes);
  if (!sizes)
    return 0;
  const int64_t most = sizes->usesOneDnn ? oneDnnForward(*sizes) : composedForward(*sizes);
  return std::max<int64_t>(0, most - shapes.bytesOf(op->getResult(0)));
}

static std::optional<int64_t> autogradWorkspace(OperatorOp op, const ExampleShapes &shapes) {
  const auto sizes = sizesOf(op, shapes);
  if (!sizes)
    return std::nullopt;
  int64_t results = sizes->inputBytes(0) + sizes->directions * sizes->outputBytes();
  for (int64_t layer = 0; layer < sizes->layers; ++layer)
    results += sizes->directions * sizes->weightBytes(layer);
  const int64_t most = sizes->usesOneDnn ? oneDnnTraining(*sizes) : composedTraining(*sizes);
  return std::max<int64_t>(0, most - results);
}

//===- Gradients ----------------------------------------------------------===//

namespace {
/// Builds a recurrent call with dropout between layers as one call for each layer, and `aten.dropout`.
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
  auto layers = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument("num_layers"));
  auto isBidirectional = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument("bidirectional"));
  if (!dropout || !layers || !isBidirectional || dropout.getValue().isZero())
    return {};
  if (!isRandom(op) || layers.getInt() == 1)
    return withOperands({})->getResults();
  // An LSTM has a list of two states [layers · directions, batch, features], others have one state.
  const Value given = op.getArgument("hx");
  auto weights = op.getArgument("params").getDefiningOp<ListOp>();
  auto pair = given.getDefiningOp<ListOp>();
  if (!weights || weights.getElements().size() % layers.getInt() || (isa<ListType>(given.getType()) && !pair))
    return {};
  const SmallVector<Value> states = pair ? SmallVector<Value>(pair.getElements()) : SmallVector<Value>{given};
  const int64_t directions = isBidirectional.getValue().isZero() ? 1 : 2;
  const unsigned weightsOfLayer = weights.getElements().size() / layers.getInt();
  const StringRef inputName = op.getArgumentName(0);
  Value input = op->getOperand(0);
  SmallVector<SmallVector<Value>> last(states.size());
  for (int64_t i = 0; i < layers.getInt(); ++i) {
    if (i)
      input = call("aten.dropout", {input, op.getArgument("dropout"), op.getArgument("train")});
    const auto own = llvm::map_to_vector(states, [&](Value state) {
      return call("aten.slice.Tensor",
                  {state, integer(0), integer(i * directions), integer((i + 1) * directions), integer(1)});
    });
    Operation *layer =
        withOperands({{inputName, input},
                      {"hx", pair ? list(own) : own[0]},
                      {"params", list(weights.getElements().slice(i * weightsOfLayer, weightsOfLayer))},
                      {"num_layers", integer(1)}});
    input = layer->getResult(0);
    for (auto [state, values] : llvm::zip(layer->getResults().drop_front(), last))
      values.push_back(state);
  }
  SmallVector<Value> results{input};
  for (const SmallVector<Value> &values : last)
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
             .shardingRule = recurrent,
             .differentiableForm = separateLayers,
             .isDifferentiatedByAutograd = true,
             .autogradBytes = autogradWorkspace});
}

} // namespace cleave
