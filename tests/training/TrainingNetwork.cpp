//===- TrainingNetwork.cpp - A network with its backward pass -------------===//
#include "tests/training/TrainingNetwork.h"
#include "codegen/EmitPlan.h"
#include "codegen/Shards.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "collectives/Collectives.h"
#include "ir/Cleave.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

using namespace mlir;

namespace cleave {

namespace {
/// A value of the IR, and its type.
struct Typed {
  std::string name, type;
};

/// Writes the function line by line.
class NetworkText {
public:
  explicit NetworkText(const TrainingNetwork &network) : network(network), tp(network.tensorParallelSize) {}
  std::string text();

private:
  std::string attributes() const;
  Typed constant(const std::string &value, const std::string &type) {
    Typed result{"%c" + std::to_string(count++), type};
    head += "  " + result.name + " = cleave.constant(" + value + ") : " + type + "\n";
    return result;
  }
  Typed integers(const std::string &values) { return constant("[" + values + "]", "!cleave.list<i64>"); }
  Typed integer(int64_t value) { return constant(std::to_string(value) + " : i64", "i64"); }
  Typed real(double value) { return constant(std::to_string(value) + " : f64", "f64"); }
  Typed none() { return constant("unit", "none"); }
  /// Of rows of the batch, and of weights.
  static std::string rows(int64_t width) {
    return "tensor<?x" + std::to_string(width) + "xf32, #cleave.layout<dims = [\"batch\", \"" +
           std::to_string(width) + "\"]>>";
  }
  static std::string turned(int64_t width) {
    const std::string text = std::to_string(width);
    return "tensor<" + text + "x?xf32, #cleave.layout<dims = [\"" + text +
           "\", \"batch\"], strides = [\"1\", \"" + text + "\"]>>";
  }
  static std::string matrix(int64_t out, int64_t in) {
    return "tensor<" + std::to_string(out) + "x" + std::to_string(in) + "xf32>";
  }
  static std::string vector(int64_t size) { return "tensor<" + std::to_string(size) + "xf32>"; }

  bool isColumnwise(uint32_t layer) const { return layer % 2 == 0; }
  /// What a rank has of the outputs and inputs of a layer.
  int64_t outOf(uint32_t layer) const { return TrainingNetwork::kWidth / (isColumnwise(layer) ? tp : 1); }
  int64_t inOf(uint32_t layer) const { return TrainingNetwork::kWidth / (isColumnwise(layer) ? 1 : tp); }
  /// `, shard = …`, for what is split along `dim`; empty for one rank.
  std::string sharding(uint32_t dim) const;
  std::string weightName(uint32_t layer) const {
    return "w" + std::to_string(network.isTied && layer + 1 == network.layers ? 0 : layer);
  }
  /// The dimension of a layer's weight that ranks split.
  uint32_t splitDim(uint32_t layer) const { return isColumnwise(layer) ? 0 : 1; }

  /// Sets where the next calls go.
  void at(uint32_t stageIndex, const std::string &phaseName = "") {
    place = "cleave.stage_index = " + std::to_string(stageIndex) + " : i64" +
            (phaseName.empty() ? "" : ", cleave.phase = #cleave.phase<" + phaseName + ">");
  }
  Typed call(const std::string &op, const std::vector<Typed> &operands, const std::string &type);
  Typed allReduce(const Typed &value) {
    return tp == 1 ? value : call("spmd.all_reduce", {value}, value.type);
  }
  void line(const std::string &text) { body += "  " + text + "\n"; }
  /// Fails where it stands if the row is out of range.
  void selectRow(const std::string &phase) {
    if (network.failsIn == phase)
      call("aten.index_select", {biases.back(), integer(0), {"%row", "tensor<1xi64>"}}, "tensor<1xf32>");
  }

  void addWeights(uint32_t layer);
  void addForward(uint32_t layer);
  void addLoss();
  void addBackward(uint32_t layer);
  void addUpdate(uint32_t layer);

  const TrainingNetwork &network;
  const int64_t tp;
  std::string head, body, place;
  unsigned count = 0;
  /// By layer.
  std::vector<Typed> weights, biases, inputs, outputs, gradients;
  Typed loss, error, next;
};
} // namespace

std::string NetworkText::sharding(uint32_t dim) const {
  if (tp == 1)
    return "";
  std::string text = ", shard = #cleave.sharding<" + std::to_string(dim);
  const int64_t size = TrainingNetwork::kWidth / tp;
  for (int64_t rank = 0; rank < tp; ++rank)
    text += ", [" + std::to_string(rank * size) + ", " + std::to_string(size) + "]";
  return text + ">";
}

Typed NetworkText::call(const std::string &op, const std::vector<Typed> &operands, const std::string &type) {
  Typed result{"%v" + std::to_string(count++), type};
  std::string names, types;
  for (const Typed &operand : operands) {
    names += (names.empty() ? "" : ", ") + operand.name;
    types += (types.empty() ? "" : ", ") + operand.type;
  }
  line(result.name + " = " + op + "(" + names + ") {" + place + "} : (" + types + ") -> " + type);
  return result;
}

void NetworkText::addWeights(uint32_t layer) {
  auto param = [&](const std::string &name, const std::string &type, const std::string &shard) {
    Typed result{"%p" + std::to_string(count++), type};
    head += "  " + result.name + " = cleave.param \"" + name + "\" {role = \"parameter\"" + shard +
            "} : " + type + "\n";
    return result;
  };
  weights.push_back(param(weightName(layer), matrix(outOf(layer), inOf(layer)), sharding(splitDim(layer))));
  biases.push_back(
      param("b" + std::to_string(layer), vector(outOf(layer)), isColumnwise(layer) ? sharding(0) : ""));
}

void NetworkText::addForward(uint32_t layer) {
  at(layer);
  const Typed input = layer == 0 ? Typed{"%x", rows(TrainingNetwork::kWidth)} : outputs.back();
  inputs.push_back(input);
  const std::string type = rows(outOf(layer));
  Typed output;
  if (isColumnwise(layer)) {
    output = call("aten.linear", {input, weights[layer], biases[layer]}, type);
  } else {
    const Typed product = allReduce(call("aten.linear", {input, weights[layer], none()}, type));
    output = call("aten.add.Tensor", {product, biases[layer], integer(1)}, type);
  }
  outputs.push_back(layer + 1 == network.layers ? output : call("aten.relu", {output}, type));
}

void NetworkText::addLoss() {
  const std::string type = rows(TrainingNetwork::kWidth);
  error = call("aten.sub.Tensor", {outputs.back(), {"%t", type}, integer(1)}, type);
  loss = call("aten.sum", {call("aten.mul.Tensor", {error, error}, type), none()}, "tensor<f32>");
  selectRow("forward");
}

void NetworkText::addBackward(uint32_t layer) {
  at(layer, "backward_input");
  const std::string type = rows(outOf(layer));
  // The gradient of the layer's output before ReLU.
  const Typed gradient = layer + 1 == network.layers
                             ? call("aten.mul.Scalar", {error, real(2)}, type)
                             : call("aten.threshold_backward", {next, outputs[layer], integer(0)}, type);
  if (layer > 0) {
    const Typed product = call("aten.mm", {gradient, weights[layer]}, rows(inOf(layer)));
    next = isColumnwise(layer) ? allReduce(product) : product;
  }
  at(layer, "backward_weight");
  const Typed across = call("aten.t", {gradient}, turned(outOf(layer)));
  const std::string matrixType = matrix(outOf(layer), inOf(layer));
  const Typed weight = call("aten.mm", {across, inputs[layer]}, matrixType);
  line("cleave.accumulate \"grad." + weightName(layer) + "\" " + weight.name + " {" + place +
       sharding(splitDim(layer)) + "} : " + matrixType);
  const Typed bias = call("aten.sum.dim_IntList", {gradient, integers("0"), constant("false", "i1"), none()},
                          vector(outOf(layer)));
  line("cleave.accumulate \"grad.b" + std::to_string(layer) + "\" " + bias.name + " {" + place +
       (isColumnwise(layer) ? sharding(0) : "") + "} : " + bias.type);
}

void NetworkText::addUpdate(uint32_t layer) {
  at(layer, "update");
  auto sum = [&](const std::string &name, const std::string &type, const std::string &shard) {
    Typed result{"%v" + std::to_string(count++), type};
    line(result.name + " = cleave.read_sum \"grad." + name + "\" {" + place + shard + "} : " + type);
    return result;
  };
  const std::string own = std::to_string(layer), type = matrix(outOf(layer), inOf(layer));
  const Typed gradient = sum(weightName(layer), type, sharding(splitDim(layer)));
  const Typed zeros = call("aten.mul.Scalar", {weights[layer], real(0)}, type);
  const Typed before{"%v" + std::to_string(count++), type};
  line(before.name + " = cleave.read_state \"momentum." + own + "\" from " + zeros.name + " {" + place +
       "} : (" + type + ") -> " + type);
  const Typed kept = call("aten.mul.Scalar", {before, real(TrainingNetwork::kMomentum)}, type);
  const Typed momentum = call("aten.add.Tensor", {kept, gradient, integer(1)}, type);
  line("cleave.write_state \"momentum." + own + "\" " + momentum.name + " {" + place + "} : " + type);
  const Typed rate = real(TrainingNetwork::kLearningRate);
  const Typed weight = call("aten.sub.Tensor", {weights[layer], momentum, rate}, type);
  line("cleave.write_weight " + weights[layer].name + ", " + weight.name + " {" + place + "} : " + type +
       ", " + type);
  const Typed step = sum("b" + own, biases[layer].type, isColumnwise(layer) ? sharding(0) : "");
  const Typed bias = call("aten.sub.Tensor", {biases[layer], step, rate}, biases[layer].type);
  line("cleave.write_weight " + biases[layer].name + ", " + bias.name + " {" + place + "} : " + bias.type +
       ", " + bias.type);
  if (tp == 1) {
    gradients.push_back(gradient);
    return;
  }
  std::string pieces;
  const int64_t size = TrainingNetwork::kWidth / tp;
  for (int64_t rank = 0; rank < tp; ++rank)
    pieces += (rank ? ", " : "") + std::to_string(rank) + ", 0, " + std::to_string(size);
  gradients.push_back(call("spmd.all_gather", {gradient, integer(splitDim(layer)), integers(pieces)},
                           matrix(TrainingNetwork::kWidth, TrainingNetwork::kWidth)));
}

std::string NetworkText::attributes() const {
  std::string outputTree = "\"tuple\"";
  for (uint32_t i = 0; i <= network.layers + network.givesWeight; ++i)
    outputTree += ", " + std::to_string(i);
  return "cleave.symbols = {batch = 16}, cleave.schedule = #cleave.schedule<pipeline_ranks = " +
         std::to_string(network.pipelineRanks) +
         ", data_ranks = " + std::to_string(network.dataParallelSize) +
         ", microbatches = " + std::to_string(network.microbatches) + ", batch = \"batch\", order = \"" +
         network.order + "\">" + (tp > 1 ? ", cleave.tp = " + std::to_string(tp) + " : i64" : "") +
         ", cleave.input_tree = [\"tuple\", 0, 1" + (network.failsIn.empty() ? "" : ", 2") +
         "], cleave.output_tree = [" + outputTree + "]";
}

std::string NetworkText::text() {
  for (uint32_t layer = 0; layer < network.layers; ++layer)
    addWeights(layer);
  for (uint32_t layer = 0; layer < network.layers; ++layer)
    addForward(layer);
  addLoss();
  for (uint32_t layer = network.layers; layer-- > 0;)
    addBackward(layer);
  for (uint32_t layer = 0; layer < network.layers; ++layer)
    addUpdate(layer);
  selectRow("update");
  std::string results = "tensor<f32> {cleave.name = \"loss\", cleave.merge = \"sum\"}", names = loss.name,
              types = loss.type;
  for (uint32_t layer = 0; layer < network.layers; ++layer) {
    results += ", " + gradients[layer].type + " {cleave.name = \"grad." + std::to_string(layer) + "\"}";
    names += ", " + gradients[layer].name;
    types += ", " + gradients[layer].type;
  }
  if (network.givesWeight) {
    results += ", " + weights.back().type + " {cleave.name = \"weight\"}";
    names += ", " + weights.back().name;
    types += ", " + weights.back().type;
  }
  const std::string type = rows(TrainingNetwork::kWidth);
  return "func.func @train(%x: " + type + " {cleave.name = \"x\"}, %t: " + type + " {cleave.name = \"t\"}" +
         (network.failsIn.empty() ? "" : ", %row: tensor<1xi64> {cleave.name = \"row\"}") + ") -> (" +
         results + ") attributes {" + attributes() + "} {\n" + head + body + "  return " + names + " : " +
         types + "\n}\n";
}

std::string TrainingNetwork::text() const { return NetworkText(*this).text(); }

static at::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

std::map<std::string, at::Tensor> TrainingNetwork::weights() const {
  std::map<std::string, at::Tensor> tensors;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const std::string own = std::to_string(layer);
    if (!isTied || layer + 1 < layers)
      tensors["w" + own] = random({kWidth, kWidth}, 100 + layer) * 0.3;
    tensors["b" + own] = random({kWidth}, 200 + layer) * 0.3;
  }
  return tensors;
}

std::vector<at::Tensor> TrainingNetwork::inputs(int64_t batch, uint64_t seed) {
  return {random({batch, kWidth}, 300 + 2 * seed), random({batch, kWidth}, 301 + 2 * seed)};
}

/// The plan of the function, before its shards are written.
static llvm::Expected<std::unique_ptr<plan::Plan>> planOf(const std::string &text) {
  static const bool isRegistered = (registerPasses(), true);
  (void)isRegistered;
  // One for the process: operators are registered in the first context.
  static MLIRContext &context = *[] {
    DialectRegistry registry;
    registerDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  std::string messages;
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  PassManager manager(&context);
  if (!module || failed(parsePassPipeline("func.func(infer-types{check=true},split-stages)", manager)) ||
      failed(manager.run(*module)))
    return llvm::createStringError(messages + text);
  auto plan = emitPlan(*module, {"test", {}, ""});
  if (failed(plan))
    return llvm::createStringError(messages + text);
  return std::move(*plan);
}

llvm::Error TrainingNetwork::write(const std::string &folder) const {
  auto plan = planOf(text());
  if (!plan)
    return plan.takeError();
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return llvm::errorCodeToError(error);
  const auto tensors = weights();
  auto read = [&](const plan::Weight &weight, const plan::WeightShard &shard, plan::ByteSink sink) {
    at::Tensor part = tensors.at(weight.name);
    for (const auto &range : shard.ranges)
      part = part.narrow(range->dim, range->offsets[0], range->sizes[0]);
    part = part.contiguous();
    return sink({static_cast<const uint8_t *>(part.const_data_ptr()), part.nbytes()});
  };
  if (llvm::Error error = writeShards(**plan, folder, read))
    return error;
  const std::vector<uint8_t> bytes = plan::encode(**plan);
  return plan::writeFileAtomically(folder + "/" + plan::kPlanFileName,
                                   {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

} // namespace cleave
