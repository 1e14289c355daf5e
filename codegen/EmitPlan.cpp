//===- EmitPlan.cpp - From split IR to a plan -----------------------------===//
#include "codegen/EmitPlan.h"
#include "codegen/CheckAttributes.h"
#include "codegen/Notes.h"
#include "codegen/ProgramEmitter.h"
#include "codegen/plan/Schedule.h"
#include "ir/Signature.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/memory/MemoryPlan.h"
#include "partitioner/memory/Microbatch.h"
#include "partitioner/memory/SpecializeRank.h"
#include "partitioner/simulation/Schedules.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

namespace {
/// Builds one plan.
class PlanEmitter {
public:
  PlanEmitter(const PlanOrigin &origin) { start(origin); }

  LogicalResult addSignature(func::FuncOp function);
  std::unique_ptr<plan::Plan> finish();

private:
  void start(const PlanOrigin &origin);
  std::unique_ptr<plan::Signature> signatureOf(func::FuncOp function, SymbolIndices &symbols);
  /// Adds the programs of one tensor-parallel rank of every stage.
  LogicalResult addPrograms(func::FuncOp function, uint32_t signature, uint32_t tensorRank,
                            const SymbolIndices &symbols);
  void addStage(StageOp stage, uint32_t ranks);
  void addPrediction(StageOp stage, const Microbatch &microbatch, uint32_t tensorRank);
  void addDimensions(func::FuncOp function);
  void addWeights();
  void addShard(plan::Weight &weight, uint32_t rank, uint32_t tensorRank,
                std::optional<ShardingAttr> sharding);

  std::unique_ptr<plan::Plan> result = std::make_unique<plan::Plan>();
  PlanTables tables;
  /// The functions of single tensor-parallel ranks; the tables refer to their operations.
  std::vector<OwningOpRef<func::FuncOp>> specialized;
};
} // namespace

void PlanEmitter::start(const PlanOrigin &origin) {
  result->producer = origin.producer;
  result->pipeline = origin.pipeline;
  result->fingerprint = std::make_unique<plan::wire::Hash>(origin.fingerprint);
  result->mesh = std::make_unique<plan::Mesh>();
}

std::unique_ptr<plan::Signature> PlanEmitter::signatureOf(func::FuncOp function, SymbolIndices &symbols) {
  auto signature = std::make_unique<plan::Signature>();
  signature->name = function.getName().str();
  auto limits = limitsOf(function);
  if (auto table = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr))
    for (NamedAttribute entry : table) {
      symbols[entry.getName()] = signature->symbols.size();
      auto symbol = std::make_unique<plan::Symbol>();
      symbol->name = entry.getName().str();
      symbol->traced = cast<IntegerAttr>(entry.getValue()).getInt();
      SizeLimits limit = limits.lookup(entry.getName());
      symbol->divisible_by = limit.divisibleBy;
      symbol->min = limit.min;
      symbol->max = limit.max;
      signature->symbols.push_back(std::move(symbol));
    }
  for (BlockArgument argument : function.getArguments()) {
    auto input = std::make_unique<plan::Input>();
    input->name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr).str();
    if (auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttr))
      input->role = role.str();
    input->type = tensorTypeOf(argument.getType(), symbols);
    signature->inputs.push_back(std::move(input));
  }
  signature->input_tree = treeOf(function->getAttr(kInputTreeAttr));
  signature->output_tree = treeOf(function->getAttr(kOutputTreeAttr));
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto output = std::make_unique<plan::Output>();
    auto source = cast<OpResult>(operand.get());
    output->name = function.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kNameAttr).str();
    output->type = tensorTypeOf(operand.get().getType(), symbols);
    output->stage = cast<StageOp>(source.getOwner()).getIndex();
    output->index = source.getResultNumber();
    signature->outputs.push_back(std::move(output));
  }
  return signature;
}

/// An integer that assign-schedule has left on the function; `fallback` if it has not run.
static int64_t decisionOf(func::FuncOp function, StringRef name, int64_t fallback) {
  auto attribute = function->getAttrOfType<IntegerAttr>(name);
  return attribute ? attribute.getInt() : fallback;
}

void PlanEmitter::addStage(StageOp op, uint32_t ranks) {
  auto stage = std::make_unique<plan::Stage>();
  stage->index = op.getIndex();
  const uint32_t width = result->mesh->dp * result->mesh->tp;
  for (uint32_t position = 0; position < width; ++position)
    stage->ranks.push_back(stage->index % ranks * width + position);
  stage->module_paths = topModules(op);
  for (Operation &inner : op.getBody().getOps())
    stage->ops += isa<OperatorOp>(inner) || inner.getNumRegions() > 0;
  result->stages.push_back(std::move(stage));
}

/// Threads of the devices that run the stage, the maximum over data-parallel ranks; one if no machine was
/// given.
static int64_t threadsOf(func::FuncOp function, StageOp stage, uint32_t tensorRank) {
  auto threads = function->getAttrOfType<ArrayAttr>(kThreadsAttr);
  auto ranks = function->getAttrOfType<IntegerAttr>(kRanksAttr);
  if (!threads || !ranks)
    return 1;
  const size_t dataRanks = decisionOf(function, kDataRanksAttr, 1), tensorRanks = tensorRanksOf(function);
  std::optional<int64_t> most;
  for (size_t dataRank = 0; dataRank < dataRanks; ++dataRank) {
    const size_t device =
        (stage.getIndex() % ranks.getInt() * dataRanks + dataRank) * tensorRanks + tensorRank;
    if (device < threads.size())
      most = std::max(most.value_or(0), cast<IntegerAttr>(threads[device]).getInt());
  }
  return most.value_or(1);
}

void PlanEmitter::addPrediction(StageOp stage, const Microbatch &microbatch, uint32_t tensorRank) {
  auto function = stage->getParentOfType<func::FuncOp>();
  ExampleShapes shapes(function);
  auto at = [&](StringRef name) { return function->getAttrOfType<ArrayAttr>(name)[stage.getIndex()]; };
  auto prediction = std::make_unique<plan::Prediction>();
  prediction->stage = stage.getIndex();
  prediction->tp_rank = tensorRank;
  prediction->seconds = cast<FloatAttr>(at(kStageSecondsAttr)).getValueAsDouble();
  prediction->recv_bytes = cast<IntegerAttr>(at(kStageRecvBytesAttr)).getInt();
  if (auto seconds = function->getAttrOfType<ArrayAttr>(kMicrobatchSecondsAttr);
      seconds && stage.getIndex() < seconds.size())
    prediction->microbatch_seconds = cast<FloatAttr>(seconds[stage.getIndex()]).getValueAsDouble();
  for (Operation &op : stage.getBody().getOps()) {
    OpWork work = workOf(&op, shapes);
    prediction->flops += work.flops;
    prediction->bytes_touched += work.bytes;
  }
  StageMemory memory =
      memoryOf(stage, microbatch.inferred, microbatch.shapes, threadsOf(function, stage, tensorRank));
  prediction->weight_bytes = memory.weightBytes;
  prediction->activation_bytes = memory.activationBytes;
  // The first tensor-parallel rank, of the data-parallel rank that ends its first micro-batch first, holds
  // the outputs.
  if (microbatch.isPart && tensorRank == 0)
    for (Value output : function.getBody().front().getTerminator()->getOperands())
      if (output.getDefiningOp() == stage)
        prediction->activation_bytes += shapes.bytesOf(output);
  prediction->peak_bytes = prediction->weight_bytes + prediction->activation_bytes;
  result->predictions.push_back(std::move(prediction));
}

LogicalResult PlanEmitter::addPrograms(func::FuncOp function, uint32_t signature, uint32_t tensorRank,
                                       const SymbolIndices &symbols) {
  auto batch = function->getAttrOfType<StringAttr>(kBatchAttr);
  auto microbatch =
      Microbatch::of(function, batch ? batch.getValue() : "",
                     decisionOf(function, kMicrobatchesAttr, 1) * decisionOf(function, kDataRanksAttr, 1));
  if (failed(microbatch))
    return failure();
  uint32_t ranks = result->mesh->pp;
  for (auto stage : function.getBody().getOps<StageOp>()) {
    ProgramEmitter emitter(tables, symbols);
    auto program = emitter.emit(stage);
    if (failed(program))
      return failure();
    (*program)->signature = signature;
    (*program)->tp_rank = tensorRank;
    result->programs.push_back(std::move(*program));
    if (tensorRank == 0)
      for (auto &point : emitter.takeCapturePoints()) {
        point->signature = signature;
        result->capture_points.push_back(std::move(point));
      }
    // The stages are those of the first signature; further signatures share them.
    if (signature == 0 && tensorRank == 0)
      addStage(stage, ranks);
    if (signature == 0)
      addPrediction(stage, *microbatch, tensorRank);
  }
  if (tensorRank == 0)
    for (plan::Note &note : notesOf(function, microbatch->inferred))
      result->notes.push_back(std::make_unique<plan::Note>(std::move(note)));
  return success();
}

void PlanEmitter::addDimensions(func::FuncOp function) {
  auto all = function->getAttrOfType<ArrayAttr>(kDimensionsAttr);
  if (!all)
    return;
  for (auto entry : all.getAsRange<DictionaryAttr>()) {
    auto dimension = std::make_unique<plan::ParallelDim>();
    dimension->path = cast<StringAttr>(entry.get("path")).str();
    dimension->parts = cast<IntegerAttr>(entry.get("parts")).getInt();
    for (StringRef weight : cast<ArrayAttr>(entry.get("weights")).getAsValueRange<StringAttr>())
      dimension->weights.push_back(weight.str());
    dimension->sums = cast<IntegerAttr>(entry.get("sums")).getInt();
    dimension->gathers = cast<IntegerAttr>(entry.get("gathers")).getInt();
    result->dimensions.push_back(std::move(dimension));
  }
}

static std::unique_ptr<plan::LinkSpeed> linkOf(ArrayRef<Attribute> numbers) {
  auto link = std::make_unique<plan::LinkSpeed>();
  link->latency_seconds = cast<FloatAttr>(numbers[0]).getValueAsDouble();
  link->bytes_per_second = cast<FloatAttr>(numbers[1]).getValueAsDouble();
  return link;
}

static void addLinks(func::FuncOp function, plan::Plan &plan) {
  if (auto link = function->getAttrOfType<ArrayAttr>(kLinkAttr))
    plan.link = linkOf(link.getValue());
  auto unlike = function->getAttrOfType<ArrayAttr>(kLinkOverridesAttr);
  if (!unlike)
    return;
  for (auto entry : unlike.getAsRange<ArrayAttr>()) {
    auto link = std::make_unique<plan::LinkOverride>();
    link->from = cast<IntegerAttr>(entry[0]).getInt();
    link->to = cast<IntegerAttr>(entry[1]).getInt();
    link->speed = linkOf(entry.getValue().drop_front(2));
    plan.link_overrides.push_back(std::move(link));
  }
}

static LogicalResult checkRanks(func::FuncOp function, size_t stages, uint32_t ranks, int64_t dataRanks) {
  if (ranks > stages)
    return function.emitError() << ranks << " ranks, expected at most " << stages << ", one a stage";
  if (const int64_t all = dataRanks * ranks * tensorRanksOf(function); all > kMostRanks)
    return function.emitError() << all << " ranks, expected at most " << kMostRanks;
  return success();
}

LogicalResult PlanEmitter::addSignature(func::FuncOp function) {
  if (failed(checkAttributes(function)))
    return failure();
  auto stages = llvm::to_vector(function.getBody().getOps<StageOp>());
  uint32_t ranks = decisionOf(function, kRanksAttr, stages.size());
  uint32_t microbatches = decisionOf(function, kMicrobatchesAttr, 1);
  const int64_t dataRanks = decisionOf(function, kDataRanksAttr, 1);
  if (failed(checkRanks(function, stages.size(), ranks, dataRanks)))
    return failure();
  SymbolIndices symbols;
  uint32_t index = result->signatures.size();
  result->signatures.push_back(signatureOf(function, symbols));
  result->mesh->pp = ranks;
  result->mesh->tp = tensorRanksOf(function);
  result->mesh->dp = dataRanks;
  for (uint32_t tensorRank = 0; tensorRank < result->mesh->tp; ++tensorRank) {
    auto own = specialized.emplace_back(cast<func::FuncOp>(function->clone())).get();
    if (failed(specializeRank(own, tensorRank)) || failed(addPrograms(own, index, tensorRank, symbols)))
      return failure();
  }
  addDimensions(function);
  if (auto batch = function->getAttrOfType<StringAttr>(kBatchAttr))
    result->signatures.back()->batch = int32_t(symbols.lookup(batch));
  if (auto precision = function->getAttrOfType<StringAttr>(kPrecisionAttr); precision && precision == "bf16")
    result->precision = plan::DType::BFloat16;
  addLinks(function, *result);
  if (auto machine = function->getAttrOfType<StringAttr>(kMachineAttr))
    result->machine = machine.str();
  if (auto devices = function->getAttrOfType<ArrayAttr>(kDevicesAttr))
    for (StringRef name : devices.getAsValueRange<StringAttr>())
      result->devices.push_back(name.str());
  if (auto limits = function->getAttrOfType<ArrayAttr>(kMemoryLimitsAttr))
    for (auto bytes : limits.getAsRange<IntegerAttr>())
      result->memory_limits.push_back(bytes.getInt());
  auto schedule = gpipe({index, uint32_t(stages.size()), ranks, microbatches, plan::transfers(*result, index),
                         result->mesh->dp * result->mesh->tp});
  result->schedules.push_back(std::make_unique<plan::Schedule>(std::move(schedule)));
  return success();
}

void PlanEmitter::addShard(plan::Weight &weight, uint32_t rank, uint32_t tensorRank,
                           std::optional<ShardingAttr> sharding) {
  auto shard = std::make_unique<plan::WeightShard>();
  shard->rank = rank;
  shard->key = weight.name;
  shard->shape = weight.shape;
  if (sharding) {
    SmallVector<int64_t> part = sharding->shapeOf(tensorRank, shard->shape);
    shard->shape.assign(part.begin(), part.end());
    shard->segment_dim = sharding->getDim();
    ArrayRef<int64_t> ranges = sharding->getRanks()[tensorRank];
    for (size_t i = 0; i < ranges.size(); i += 2) {
      shard->segment_offsets.push_back(ranges[i]);
      shard->segment_sizes.push_back(ranges[i + 1]);
    }
  }
  weight.shards.push_back(std::move(shard));
}

void PlanEmitter::addWeights() {
  for (auto &[name, param] : tables.weights) {
    auto weight = std::make_unique<plan::Weight>();
    auto type = cast<RankedTensorType>(param.getType());
    weight->name = name.str();
    if (param.getAliases())
      for (StringRef alias : param.getAliases()->getAsValueRange<StringAttr>())
        weight->aliases.push_back(alias.str());
    weight->role = param.getRole() == "parameter" ? plan::WeightRole::Parameter
                   : param.getRole() == "buffer"  ? plan::WeightRole::Buffer
                                                  : plan::WeightRole::Constant;
    weight->dtype = dtypeOf(type.getElementType());
    weight->shape = type.getShape().vec();
    if (auto shard = param.getShard())
      weight->shape[shard->getDim()] = shard->getSize();
    weight->wrapped_number = param.getWrapped();
    auto style = param->getAttrOfType<StringAttr>(kStyleAttr);
    weight->style = style ? style.str() : "replicate";
    result->weights.push_back(std::move(weight));
  }
  /// By weight and tensor-parallel rank.
  llvm::MapVector<std::pair<uint32_t, uint32_t>, uint32_t> placed;
  for (auto &program : result->programs)
    for (uint32_t rank : result->stages[program->stage]->ranks)
      if (plan::tensorRankOf(*result, rank) == program->tp_rank)
        for (auto &use : program->weights)
          placed.insert({{use->weight, rank}, program->tp_rank});
  for (auto &[place, tensorRank] : placed)
    addShard(*result->weights[place.first], place.second, tensorRank,
             (tables.weights.begin() + place.first)->second.getShard());
}

std::unique_ptr<plan::Plan> PlanEmitter::finish() {
  addWeights();
  for (auto &[name, state] : tables.states)
    result->states.push_back(std::move(state));
  result->operators = tables.operators.take();
  result->paths = tables.paths.take();
  return std::move(result);
}

FailureOr<std::unique_ptr<plan::Plan>> emitPlan(ModuleOp module, const PlanOrigin &origin) {
  PlanEmitter emitter(origin);
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(emitter.addSignature(function)))
      return failure();
  return emitter.finish();
}

} // namespace cleave
