//===- EmitPlan.cpp - From split IR to a plan -----------------------------===//
#include "codegen/EmitPlan.h"
#include "codegen/Buckets.h"
#include "codegen/CheckAttributes.h"
#include "codegen/CheckSignatures.h"
#include "codegen/Notes.h"
#include "codegen/ProgramEmitter.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "ir/Signature.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/memory/Microbatch.h"
#include "partitioner/memory/SpecializeRank.h"
#include "partitioner/memory/StageMemory.h"
#include "partitioner/simulation/Schedules.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;

namespace cleave {

namespace {
/// Builds one plan.
class PlanEmitter {
public:
  PlanEmitter(const PlanOrigin &origin) { start(origin); }

  LogicalResult addSignature(func::FuncOp function);
  /// \param functions  those that were added.
  FailureOr<std::unique_ptr<plan::Plan>> finish(ArrayRef<func::FuncOp> functions);

private:
  void start(const PlanOrigin &origin);
  std::unique_ptr<plan::Signature> signatureOf(func::FuncOp function, SymbolIndices &symbols);
  /// Adds the programs of one tensor-parallel rank of every stage.
  LogicalResult addPrograms(func::FuncOp function, uint32_t signature, uint32_t tpRank,
                            const SymbolIndices &symbols);
  void addStage(StageOp stage, uint32_t ranks);
  FailureOr<plan::Schedule> scheduleFor(func::FuncOp function, uint32_t signature);
  void addPrediction(StageOp stage, const Microbatch &microbatch, uint32_t tpRank);
  void addMemory(plan::Prediction &prediction, StageOp stage, const Microbatch &microbatch, uint32_t tpRank);
  void addMemoryOverTime(const plan::Schedule &schedule);
  void addNotes(func::FuncOp function, const InferredValues &inferred);
  void addShardingGroups(func::FuncOp function);
  void addWeights();
  void addShard(plan::Weight &weight, uint32_t rank, uint32_t tpRank, std::optional<ShardingAttr> sharding);

  std::unique_ptr<plan::Plan> result = std::make_unique<plan::Plan>();
  PlanTables tables;
  /// Of the signature that is added.
  CapturePointTable capturePoints;
  /// By stage and tensor-parallel rank: the weights that its predictions count.
  std::map<std::pair<uint32_t, uint32_t>, llvm::StringSet<>> predictedWeights;
  /// The functions of single tensor-parallel ranks, signature by signature; the tables refer to their
  /// operations.
  std::vector<OwningOpRef<func::FuncOp>> specialized;
  /// Of each of these: its largest micro-batch.
  std::vector<Microbatch> microbatches;
};
} // namespace

void PlanEmitter::start(const PlanOrigin &origin) {
  result->producer = origin.producer;
  result->pass_pipeline = origin.passPipeline;
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
    output->phase = planPhaseOf(cast<StageOp>(source.getOwner()).getPhase());
    auto merge = function.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kMergeAttr);
    output->merge = merge && merge == "sum" ? plan::OutputMerge::Sum : plan::OutputMerge::Join;
    output->index = source.getResultNumber();
    signature->outputs.push_back(std::move(output));
  }
  if (auto clipNorm = function->getAttrOfType<FloatAttr>(kClipNormAttr))
    signature->clip_norm = clipNorm.getValueAsDouble();
  return signature;
}

/// Number of stages, each of which has a forward program.
static int64_t stageCount(func::FuncOp function) {
  return llvm::count_if(function.getBody().getOps<StageOp>(),
                        [](StageOp stage) { return stage.getPhase() == Phase::Forward; });
}

/// The decision of assign-schedule; where it has not run, a rank for each stage and one micro-batch.
static ScheduleAttr scheduleOf(func::FuncOp function) {
  if (auto schedule = decisionOf<ScheduleAttr>(function))
    return schedule;
  return ScheduleAttr::get(function.getContext(), stageCount(function), /*data_ranks=*/1,
                           /*microbatches=*/1, /*batch=*/nullptr, /*batch_obstacle=*/nullptr,
                           /*microbatch_seconds=*/nullptr, /*order=*/nullptr);
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
static int64_t threadsOf(func::FuncOp function, StageOp stage, uint32_t tpRank) {
  auto target = decisionOf<TargetAttr>(function);
  const DenseI64ArrayAttr threads = target ? target.getThreads() : DenseI64ArrayAttr();
  if (!threads)
    return 1;
  const ScheduleAttr schedule = scheduleOf(function);
  const size_t dataParallelSize = schedule.getDataRanks(),
               tensorParallelSize = tensorParallelSizeOf(function);
  std::optional<int64_t> most;
  for (size_t dpRank = 0; dpRank < dataParallelSize; ++dpRank) {
    const size_t device =
        (stage.getIndex() % schedule.getPipelineRanks() * dataParallelSize + dpRank) * tensorParallelSize +
        tpRank;
    if (device < size_t(threads.size()))
      most = std::max(most.value_or(0), threads[device]);
  }
  return most.value_or(1);
}

void PlanEmitter::addPrediction(StageOp stage, const Microbatch &microbatch, uint32_t tpRank) {
  auto function = stage->getParentOfType<func::FuncOp>();
  ExampleShapes shapes(function);
  auto cut = decisionOf<CutAttr>(function);
  auto prediction = std::make_unique<plan::Prediction>();
  prediction->stage = stage.getIndex();
  prediction->tp_rank = tpRank;
  prediction->seconds = cut.getSeconds()[stage.getIndex()];
  prediction->recv_bytes = cut.getRecvBytes()[stage.getIndex()];
  if (DenseF64ArrayAttr seconds = scheduleOf(function).getMicrobatchSeconds())
    prediction->microbatch_seconds = seconds[stage.getIndex()];
  for (Operation &op : stage.getBody().getOps()) {
    OpWork work = workOf(&op, shapes);
    prediction->flops += work.flops;
    prediction->bytes_touched += work.bytes;
  }
  addMemory(*prediction, stage, microbatch, tpRank);
  result->predictions.push_back(std::move(prediction));
}

/// Adds what one signature needs: its weights, each once; and its activations, as one signature runs at a
/// time.
void PlanEmitter::addMemory(plan::Prediction &prediction, StageOp stage, const Microbatch &microbatch,
                            uint32_t tpRank) {
  auto function = stage->getParentOfType<func::FuncOp>();
  ExampleShapes shapes(function);
  int64_t activations = memoryOf(stage, microbatch.inferred, microbatch.shapes,
                                 threadsOf(function, stage, tpRank), scheduleOf(function).getMicrobatches())
                            .activationBytes;
  // The first tensor-parallel rank, of the data-parallel rank that ends its first micro-batch first, holds
  // the outputs.
  if (microbatch.isPart && tpRank == 0)
    for (Value output : function.getBody().front().getTerminator()->getOperands())
      if (output.getDefiningOp() == stage)
        activations += shapes.bytesOf(output);
  for (ParamOp param : stage.getBody().getOps<ParamOp>())
    if (predictedWeights[{prediction.stage, tpRank}].insert(param.getName()).second)
      prediction.weight_bytes += microbatch.shapes.bytesOf(param);
  for (StageOp other : function.getBody().getOps<StageOp>())
    if (other.getIndex() == stage.getIndex())
      activations += optimizerBytes(other, microbatch.shapes);
  prediction.activation_bytes = std::max(prediction.activation_bytes, activations);
  prediction.peak_bytes = prediction.weight_bytes + prediction.activation_bytes;
}

/// Adds what a note of an earlier signature does not say already.
void PlanEmitter::addNotes(func::FuncOp function, const InferredValues &inferred) {
  for (plan::Note &note : notesOf(function, inferred))
    if (llvm::none_of(result->notes, [&](auto &known) { return known->text == note.text; }))
      result->notes.push_back(std::make_unique<plan::Note>(std::move(note)));
}

LogicalResult PlanEmitter::addPrograms(func::FuncOp function, uint32_t signature, uint32_t tpRank,
                                       const SymbolIndices &symbols) {
  const ScheduleAttr schedule = scheduleOf(function);
  auto microbatch = Microbatch::of(function, schedule.getBatch() ? schedule.getBatch().getValue() : "",
                                   schedule.getMicrobatches() * schedule.getDataRanks());
  if (failed(microbatch))
    return failure();
  uint32_t ranks = result->mesh->pp;
  for (auto stage : function.getBody().getOps<StageOp>()) {
    ProgramEmitter emitter(tables, symbols);
    auto program = emitter.emit(stage, tpRank);
    if (failed(program))
      return failure();
    (*program)->signature = signature;
    (*program)->tp_rank = tpRank;
    result->programs.push_back(std::move(*program));
    capturePoints.add(emitter.takeCapturePoints(), tpRank);
    // The other phases of a stage follow its forward pass, on the same device.
    if (stage.getPhase() != Phase::Forward) {
      for (auto &prediction : result->predictions)
        if (prediction->stage == uint32_t(stage.getIndex()) && prediction->tp_rank == tpRank)
          addMemory(*prediction, stage, *microbatch, tpRank);
      continue;
    }
    // The stages are those of the first signature; further signatures share them.
    if (signature == 0 && tpRank == 0)
      addStage(stage, ranks);
    // Passes over training steps leave no costs.
    if (!decisionOf<CutAttr>(function))
      continue;
    // Times are those of the first signature; memory suffices for each.
    if (signature == 0)
      addPrediction(stage, *microbatch, tpRank);
    else
      for (auto &prediction : result->predictions)
        if (prediction->stage == uint32_t(stage.getIndex()) && prediction->tp_rank == tpRank)
          addMemory(*prediction, stage, *microbatch, tpRank);
  }
  if (tpRank == 0)
    addNotes(function, microbatch->inferred);
  microbatches.push_back(std::move(*microbatch));
  return success();
}

/// Predicts what each stage holds over the time of a schedule with backward passes.
void PlanEmitter::addMemoryOverTime(const plan::Schedule &schedule) {
  for (uint32_t tpRank = 0; tpRank < result->mesh->tp; ++tpRank) {
    const size_t index = schedule.signature * result->mesh->tp + tpRank;
    func::FuncOp function = *specialized[index];
    const Microbatch &microbatch = microbatches[index];
    for (auto &prediction : result->predictions) {
      SmallVector<StageOp> programs;
      int64_t states = 0;
      for (StageOp program : function.getBody().getOps<StageOp>())
        if (uint32_t(program.getIndex()) == prediction->stage) {
          programs.push_back(program);
          states += optimizerBytes(program, microbatch.shapes);
        }
      if (prediction->tp_rank != tpRank || programs.empty())
        continue;
      SmallVector<const plan::Action *> actions;
      for (const auto &action : schedule.ranks[result->stages[prediction->stage]->ranks[tpRank]]->actions)
        actions.push_back(action.get());
      const int64_t activations = states + memoryOf(programs, actions, microbatch.inferred, microbatch.shapes,
                                                    threadsOf(function, programs.front(), tpRank))
                                               .activationBytes;
      prediction->activation_bytes = std::max(prediction->activation_bytes, activations);
      prediction->peak_bytes = prediction->weight_bytes + prediction->activation_bytes;
    }
  }
}

void PlanEmitter::addShardingGroups(func::FuncOp function) {
  auto decision = decisionOf<ShardingDecisionAttr>(function);
  if (!decision)
    return;
  for (auto group : decision.getGroups().getAsRange<ShardingGroupAttr>()) {
    auto entry = std::make_unique<plan::ShardingGroup>();
    entry->path = group.getPath().str();
    entry->parts = group.getParts();
    for (StringRef weight : group.getWeights().getAsValueRange<StringAttr>())
      entry->weights.push_back(weight.str());
    entry->all_reduces = group.getAllReduces();
    entry->all_gathers = group.getAllGathers();
    result->sharding_groups.push_back(std::move(entry));
  }
}

static std::unique_ptr<plan::LinkSpeed> linkOf(DenseF64ArrayAttr speed) {
  auto link = std::make_unique<plan::LinkSpeed>();
  link->latency_seconds = speed[0];
  link->bytes_per_second = speed[1];
  return link;
}

static void addTarget(TargetAttr target, plan::Plan &plan) {
  if (target.getLink())
    plan.link = linkOf(target.getLink());
  if (ArrayAttr overrides = target.getLinkOverrides())
    for (auto entry : overrides.getAsRange<LinkOverrideAttr>()) {
      auto link = std::make_unique<plan::LinkOverride>();
      link->from = entry.getFrom();
      link->to = entry.getTo();
      link->speed = linkOf(entry.getSpeed());
      plan.link_overrides.push_back(std::move(link));
    }
  if (target.getMachine())
    plan.machine = target.getMachine().str();
  if (ArrayAttr devices = target.getDevices())
    for (StringRef name : devices.getAsValueRange<StringAttr>())
      plan.devices.push_back(name.str());
  if (DenseI64ArrayAttr limits = target.getMemoryLimits())
    plan.memory_limits.assign(limits.asArrayRef().begin(), limits.asArrayRef().end());
}

static LogicalResult checkRanks(func::FuncOp function, size_t stages, uint32_t ranks,
                                int64_t dataParallelSize) {
  if (ranks > stages)
    return function.emitError() << ranks << " ranks, expected at most " << stages << ", one a stage";
  if (const int64_t all = dataParallelSize * ranks * tensorParallelSizeOf(function); all > kMaxRanks)
    return function.emitError() << all << " ranks, expected at most " << kMaxRanks;
  return success();
}

/// Checks that a further signature is split as those before it.
static LogicalResult checkAgreement(func::FuncOp function, const plan::Plan &plan, size_t stages,
                                    uint32_t ranks, int64_t dataParallelSize) {
  const int64_t tensorParallelSize = tensorParallelSizeOf(function);
  if (plan.signatures.empty() || (stages == plan.stages.size() && ranks == plan.mesh->pp &&
                                  dataParallelSize == plan.mesh->dp && tensorParallelSize == plan.mesh->tp))
    return success();
  return function.emitError() << stages << " stages on pp=" << ranks << ", dp=" << dataParallelSize
                              << ", tp=" << tensorParallelSize << ", expected " << plan.stages.size()
                              << " on pp=" << plan.mesh->pp << ", dp=" << plan.mesh->dp
                              << ", tp=" << plan.mesh->tp << " as signature " << plan.signatures[0]->name;
}

LogicalResult PlanEmitter::addSignature(func::FuncOp function) {
  if (failed(checkAttributes(function)))
    return failure();
  const size_t stages = stageCount(function);
  const ScheduleAttr schedule = scheduleOf(function);
  const uint32_t ranks = schedule.getPipelineRanks();
  const int64_t dataParallelSize = schedule.getDataRanks();
  if (failed(checkRanks(function, stages, ranks, dataParallelSize)) ||
      failed(checkAgreement(function, *result, stages, ranks, dataParallelSize)))
    return failure();
  SymbolIndices symbols;
  uint32_t index = result->signatures.size();
  result->signatures.push_back(signatureOf(function, symbols));
  result->mesh->pp = ranks;
  result->mesh->tp = tensorParallelSizeOf(function);
  result->mesh->dp = dataParallelSize;
  result->groups = plan::groupsOf(*result->mesh);
  tables.sums.pipelineRanks = ranks;
  std::set<std::string> otherStates;
  function.walk([&](Operation *op) {
    if (auto state = dyn_cast<ReadStateOp>(op))
      otherStates.insert(state.getName().str());
    if (auto update = dyn_cast<UpdateWeightOp>(op))
      for (StringRef state : update.getStates().getAsValueRange<StringAttr>())
        otherStates.insert(state.str());
    auto added = dyn_cast<AccumulateOp>(op);
    auto read = dyn_cast<ReadSumOp>(op);
    if (!added && !read)
      return;
    auto stage = op->getParentOfType<StageOp>();
    StepSum &sum = tables.sums.byName[(added ? added.getName() : read.getName()).str()];
    sum.stages.insert(stage.getIndex());
    sum.isOfNorm |= added && stage.getPhase() == Phase::Norm;
  });
  tables.sums.nameStates(std::move(otherStates));
  for (uint32_t tpRank = 0; tpRank < result->mesh->tp; ++tpRank) {
    auto own = specialized.emplace_back(cast<func::FuncOp>(function->clone())).get();
    if (failed(specializeRank(own, tpRank)) || failed(addPrograms(own, index, tpRank, symbols)))
      return failure();
  }
  for (auto &point : capturePoints.take(result->mesh->tp)) {
    point->signature = index;
    result->capture_points.push_back(std::move(point));
  }
  addShardingGroups(function);
  setBatch(function, schedule.getBatch(), symbols, *result->signatures.back());
  if (auto precision = function->getAttrOfType<StringAttr>(kPrecisionAttr); precision && precision == "bf16")
    result->precision = plan::DType::BFloat16;
  if (auto target = decisionOf<TargetAttr>(function); target && index == 0)
    addTarget(target, *result);
  return success();
}

/// Drops the passes of programs that do not exist: a stage may have no weights, or none that is trained.
static void dropMissing(plan::Schedule &schedule, const plan::Plan &plan) {
  auto hasProgram = [&](uint32_t stage, plan::Phase phase) {
    return llvm::any_of(plan.programs, [&](const auto &program) {
      return program->signature == schedule.signature && program->stage == stage && program->phase == phase;
    });
  };
  for (auto &rank : schedule.ranks)
    llvm::erase_if(rank->actions, [&](const auto &action) {
      return (action->kind == plan::ActionKind::BackwardInput &&
              !hasProgram(action->stage, plan::Phase::BackwardInput)) ||
             (action->kind == plan::ActionKind::BackwardWeight &&
              !hasProgram(action->stage, plan::Phase::BackwardWeight));
    });
}

FailureOr<plan::Schedule> PlanEmitter::scheduleFor(func::FuncOp function, uint32_t signature) {
  const ScheduleAttr decision = scheduleOf(function);
  Pipeline pipeline{signature,
                    uint32_t(stageCount(function)),
                    uint32_t(decision.getPipelineRanks()),
                    uint32_t(decision.getMicrobatches()),
                    plan::transfers(*result, signature),
                    plan::ranksPerDeviceGroup(*result)};
  const bool trains = llvm::any_of(function.getBody().getOps<StageOp>(),
                                   [](StageOp stage) { return stage.getPhase() != Phase::Forward; });
  // Where the backward pass is part of the forward programs, only updates follow.
  const bool hasBackward = llvm::any_of(function.getBody().getOps<StageOp>(), [](StageOp stage) {
    return stage.getPhase() == Phase::BackwardInput;
  });
  if (!hasBackward) {
    plan::Schedule schedule = gpipe(pipeline);
    if (trains)
      appendUpdates(schedule, *result);
    return schedule;
  }
  pipeline.gradientTransfers = plan::transfers(*result, signature, plan::Phase::BackwardInput);
  StringRef order = decision.getOrder()                        ? decision.getOrder().getValue()
                    : pipeline.stages > pipeline.pipelineRanks ? "interleaved"
                                                               : "1f1b";
  auto schedule = makeTrainingSchedule(*trainingScheduleNamed(order), pipeline);
  if (!schedule)
    return function.emitError() << llvm::toString(schedule.takeError());
  dropMissing(*schedule, *result);
  appendUpdates(*schedule, *result);
  addMemoryOverTime(*schedule);
  return std::move(*schedule);
}

void PlanEmitter::addShard(plan::Weight &weight, uint32_t rank, uint32_t tpRank,
                           std::optional<ShardingAttr> sharding) {
  auto shard = std::make_unique<plan::WeightShard>();
  shard->rank = rank;
  shard->key = weight.name;
  shard->shape = weight.shape;
  if (sharding) {
    SmallVector<int64_t> part = sharding->shapeOf(tpRank, shard->shape);
    shard->shape.assign(part.begin(), part.end());
    shard->ranges.push_back(rangesOf(*sharding, tpRank));
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
    weight->trainable = tables.trainable.count(weight->name) != 0;
    auto style = decisionOf<WeightShardingAttr>(param);
    weight->style = style && style.getStyle() ? style.getStyle().str() : "replicate";
    result->weights.push_back(std::move(weight));
  }
  /// By weight and tensor-parallel rank.
  llvm::MapVector<std::pair<uint32_t, uint32_t>, uint32_t> placed;
  for (auto &program : result->programs)
    for (uint32_t rank : result->stages[program->stage]->ranks)
      if (plan::tpRankOf(*result, rank) == program->tp_rank)
        for (auto &use : program->weights)
          placed.insert({{use->weight, rank}, program->tp_rank});
  for (auto &[shard, tpRank] : placed)
    addShard(*result->weights[shard.first], shard.second, tpRank,
             (tables.weights.begin() + shard.first)->second.getShard());
}

FailureOr<std::unique_ptr<plan::Plan>> PlanEmitter::finish(ArrayRef<func::FuncOp> functions) {
  addWeights();
  for (auto &[name, state] : tables.states)
    result->states.push_back(std::move(state));
  addBuckets(*result, tables.sums);
  for (auto [signature, function] : llvm::enumerate(functions)) {
    auto schedule = scheduleFor(function, signature);
    if (failed(schedule))
      return failure();
    result->schedules.push_back(std::make_unique<plan::Schedule>(std::move(*schedule)));
  }
  result->operators = tables.operators.take();
  result->paths = tables.paths.take();
  result->required_features = requiredFeatures(*result);
  return std::move(result);
}

FailureOr<std::unique_ptr<plan::Plan>> emitPlan(ModuleOp module, const PlanOrigin &origin) {
  if (failed(checkSignatures(module)))
    return failure();
  PlanEmitter emitter(origin);
  const auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions)
    if (failed(emitter.addSignature(function)))
      return failure();
  return emitter.finish(functions);
}

} // namespace cleave
