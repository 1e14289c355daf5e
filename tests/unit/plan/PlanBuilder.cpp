//===- PlanBuilder.cpp - A small valid plan, and where to put it ----------===//
#include "tests/unit/plan/PlanBuilder.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <numeric>

namespace cleave::plan {

//===- Pieces -------------------------------------------------------------===//

/// float32 of `batch` rows, batch being symbol 0.
static std::unique_ptr<TensorType> makeRows(int64_t columns) {
  auto type = std::make_unique<TensorType>();
  type->dtype = DType::Float;
  type->ranked = true;
  type->dims.push_back(std::make_unique<DimExpr>(symbolDim(0)));
  type->dims.push_back(std::make_unique<DimExpr>(constantDim(columns)));
  return type;
}

static std::unique_ptr<Instruction> makeInstruction(InstructionKind kind, uint32_t op,
                                                    std::vector<uint32_t> operands,
                                                    std::vector<uint32_t> results,
                                                    std::vector<uint32_t> releases, uint32_t path) {
  auto instruction = std::make_unique<Instruction>();
  instruction->kind = kind;
  instruction->op = op;
  instruction->operands = std::move(operands);
  instruction->results = std::move(results);
  instruction->releases = std::move(releases);
  instruction->path = path;
  return instruction;
}

std::unique_ptr<Action> makeAction(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer) {
  auto action = std::make_unique<Action>();
  action->kind = kind;
  action->stage = stage;
  action->microbatch = microbatch;
  action->peer_stage = peer;
  return action;
}

static void addWeight(Plan &plan, std::string name, std::vector<int64_t> shape, uint32_t rank) {
  auto weight = std::make_unique<Weight>();
  weight->name = name;
  weight->dtype = DType::Float;
  weight->shape = shape;
  auto shard = std::make_unique<WeightShard>();
  shard->rank = rank;
  shard->key = name;
  shard->shape = shape;
  weight->shards.push_back(std::move(shard));
  plan.weights.push_back(std::move(weight));
}

static void useWeight(Program &program, uint32_t slot, uint32_t weight) {
  auto use = std::make_unique<SlotWeight>();
  use->slot = slot;
  use->weight = weight;
  program.weights.push_back(std::move(use));
}

static void addInput(Program &program, Source source) {
  program.inputs.push_back(std::make_unique<ProgramInput>());
  program.inputs.back()->source = source;
}

static std::unique_ptr<Tree> makeTupleOfOneLeaf() {
  auto tree = std::make_unique<Tree>();
  tree->kind = TreeKind::Tuple;
  tree->children.push_back(std::make_unique<Tree>());
  return tree;
}

//===- The plan -----------------------------------------------------------===//

static std::unique_ptr<Signature> makeSignature() {
  auto signature = std::make_unique<Signature>();
  signature->name = "forward";
  signature->symbols.push_back(std::make_unique<Symbol>());
  signature->symbols[0]->name = "batch";
  signature->symbols[0]->traced = 3;
  signature->batch = 0;
  signature->inputs.push_back(std::make_unique<Input>());
  signature->inputs[0]->name = "x";
  signature->inputs[0]->role = "tokens";
  signature->inputs[0]->type = makeRows(8);
  signature->input_tree = makeTupleOfOneLeaf();
  signature->outputs.push_back(std::make_unique<Output>());
  signature->outputs[0]->name = "y";
  signature->outputs[0]->type = makeRows(4);
  signature->outputs[0]->stage = 1;
  signature->output_tree = makeTupleOfOneLeaf();
  return signature;
}

/// Slots: 0 input, 1 and 2 weights, 3 a size, 4 and 5 results.
static std::unique_ptr<Program> makeFirstProgram() {
  auto program = std::make_unique<Program>();
  program->slots = 6;
  addInput(*program, Source::Request);
  useWeight(*program, 1, 0);
  useWeight(*program, 2, 1);
  program->sizes.push_back(std::make_unique<SlotSize>());
  program->sizes[0]->slot = 3;
  program->sizes[0]->value = std::make_unique<DimExpr>(symbolDim(0));
  program->types.push_back(std::make_unique<SlotType>());
  program->types[0]->slot = 5;
  program->types[0]->type = makeRows(16);
  program->outputs = {5};
  auto body = std::make_unique<Block>();
  body->instructions.push_back(makeInstruction(InstructionKind::Call, 0, {0, 1, 2}, {4}, {0}, 1));
  body->instructions.push_back(makeInstruction(InstructionKind::Call, 1, {4}, {5}, {4}, 2));
  program->blocks.push_back(std::move(body));
  return program;
}

/// Slots: 0 input, 1 weight, 2 a constant, 3 the result, 4 and 5 results of the branches.
static std::unique_ptr<Program> makeSecondProgram() {
  auto program = std::make_unique<Program>();
  program->stage = 1;
  program->slots = 6;
  addInput(*program, Source::Stage);
  useWeight(*program, 1, 2);
  program->constants.push_back(std::make_unique<SlotConstant>());
  program->constants[0]->slot = 2;
  program->constants[0]->value = std::make_unique<Constant>();
  program->constants[0]->value->kind = ConstantKind::Bool;
  program->constants[0]->value->integer = 1;
  program->outputs = {3};
  auto body = std::make_unique<Block>();
  body->instructions.push_back(makeInstruction(InstructionKind::If, 0, {2}, {3}, {0}, 2));
  body->instructions[0]->blocks = {1, 2};
  program->blocks.push_back(std::move(body));
  for (uint32_t result : {4, 5}) {
    auto branch = std::make_unique<Block>();
    branch->instructions.push_back(makeInstruction(InstructionKind::Call, 0, {0, 1}, {result}, {}, 2));
    branch->results = {result};
    program->blocks.push_back(std::move(branch));
  }
  return program;
}

/// Two micro-batches, one after the other.
static std::unique_ptr<Schedule> makeSchedule() {
  auto schedule = std::make_unique<Schedule>();
  schedule->name = "gpipe";
  schedule->microbatches = 2;
  for (uint32_t rank : {0, 1}) {
    schedule->ranks.push_back(std::make_unique<RankActions>());
    schedule->ranks[rank]->rank = rank;
  }
  for (uint32_t microbatch : {0, 1}) {
    auto &first = schedule->ranks[0]->actions, &second = schedule->ranks[1]->actions;
    first.push_back(makeAction(ActionKind::Forward, 0, microbatch));
    first.push_back(makeAction(ActionKind::Send, 0, microbatch, 1));
    second.push_back(makeAction(ActionKind::Recv, 1, microbatch, 0));
    second.push_back(makeAction(ActionKind::Forward, 1, microbatch));
  }
  return schedule;
}

static void addStage(Plan &plan, uint32_t index) {
  auto stage = std::make_unique<Stage>();
  stage->index = index;
  stage->ranks = {index};
  stage->module_paths = {"layer" + std::to_string(index)};
  stage->ops = 2 - index;
  plan.stages.push_back(std::move(stage));
  auto prediction = std::make_unique<Prediction>();
  prediction->stage = index;
  prediction->seconds = index == 0 ? 0.003 : 0.001;
  prediction->weight_bytes = index == 0 ? 576 : 256;
  prediction->microbatch_seconds = prediction->seconds / 2;
  prediction->activation_bytes = 512;
  prediction->peak_bytes = 1024;
  prediction->recv_bytes = index * 192;
  plan.predictions.push_back(std::move(prediction));
}

static void addShardFile(Plan &plan, uint32_t rank) {
  auto file = std::make_unique<ShardFile>();
  file->rank = rank;
  file->name = shardFileName(rank);
  file->bytes = 1024;
  file->hash = std::make_unique<wire::Hash>();
  plan.shard_files.push_back(std::move(file));
}

static void addNoteAndCapturePoint(Plan &plan) {
  auto note = std::make_unique<Note>();
  note->kind = "balance";
  note->module_path = "layer0";
  note->op = "aten::linear";
  note->text = "one operation takes most of the time";
  plan.notes.push_back(std::move(note));
  auto point = std::make_unique<CapturePoint>();
  point->path = "layer0";
  point->slots.push_back(std::make_unique<CaptureSlot>());
  point->slots[0]->slot = 4;
  point->slots[0]->after = 1;
  point->type = std::make_unique<TensorType>();
  plan.capture_points.push_back(std::move(point));
}

static void addCandidate(Plan &plan, std::string mesh, double seconds, std::string reason) {
  auto one = std::make_unique<MeshCandidate>();
  one->mesh = std::move(mesh);
  one->schedule = "gpipe";
  one->microbatches = 2;
  one->seconds = seconds;
  one->peak_bytes = 1024;
  one->reason = std::move(reason);
  plan.candidates.push_back(std::move(one));
}

std::unique_ptr<Plan> makeTwoStagePlan() {
  auto plan = std::make_unique<Plan>();
  plan->producer = "cleave test";
  plan->fingerprint = std::make_unique<wire::Hash>();
  plan->pass_pipeline = "canonicalize,split-stages";
  plan->mesh = std::make_unique<Mesh>();
  plan->mesh->pp = 2;
  plan->operators = {"aten::linear", "aten::relu"};
  plan->paths = {"", "layer0", "layer1"};
  plan->signatures.push_back(makeSignature());
  addWeight(*plan, "layer0.weight", {16, 8}, 0);
  addWeight(*plan, "layer0.bias", {16}, 0);
  addWeight(*plan, "layer1.weight", {4, 16}, 1);
  plan->weights[2]->aliases = {"head.weight"};
  plan->programs.push_back(makeFirstProgram());
  plan->programs.push_back(makeSecondProgram());
  plan->schedules.push_back(makeSchedule());
  for (uint32_t rank : {0, 1}) {
    addStage(*plan, rank);
    addShardFile(*plan, rank);
  }
  addNoteAndCapturePoint(*plan);
  addCandidate(*plan, "pp=2,tp=1", 0.00390625, "");
  addCandidate(*plan, "pp=1,tp=2", 0.0048828125, "takes 25.0 % longer");
  plan->link = std::make_unique<LinkSpeed>();
  plan->link->latency_seconds = 1e-6;
  plan->link->bytes_per_second = 1e9;
  return plan;
}

//===- Training -----------------------------------------------------------===//

/// A program of a later phase, which takes a result of another one.
static Program &addPhase(Plan &plan, uint32_t stage, Phase phase,
                         std::vector<std::pair<uint32_t, Phase>> from) {
  auto program = std::make_unique<Program>();
  program->stage = stage;
  program->phase = phase;
  program->blocks.push_back(std::make_unique<Block>());
  for (auto [source, sourcePhase] : from) {
    addInput(*program, Source::Stage);
    program->inputs.back()->slot = program->slots++;
    program->inputs.back()->stage = source;
    program->inputs.back()->phase = sourcePhase;
  }
  plan.programs.push_back(std::move(program));
  return *plan.programs.back();
}

static void emit(Program &program, InstructionKind kind, uint32_t op, std::vector<uint32_t> operands,
                 std::vector<uint32_t> results, std::vector<uint32_t> releases) {
  program.slots += results.size();
  program.blocks[0]->instructions.push_back(
      makeInstruction(kind, op, std::move(operands), std::move(results), std::move(releases), 0));
}

/// All forward passes, then the backward passes.
static void trainInSchedule(Schedule &schedule) {
  auto &first = schedule.ranks[0]->actions, &second = schedule.ranks[1]->actions;
  for (uint32_t microbatch : {0, 1}) {
    second.push_back(makeAction(ActionKind::BackwardInput, 1, microbatch));
    second.push_back(makeAction(ActionKind::SendGrad, 1, microbatch, 0));
    first.push_back(makeAction(ActionKind::RecvGrad, 0, microbatch, 1));
    first.push_back(makeAction(ActionKind::BackwardInput, 0, microbatch));
    first.push_back(makeAction(ActionKind::BackwardWeight, 0, microbatch));
  }
  first.push_back(makeAction(ActionKind::Update, 0, 0));
}

std::unique_ptr<Plan> makeTrainingPlan() {
  auto plan = makeTwoStagePlan();
  auto matrix = [] {
    auto type = std::make_unique<TensorType>(TensorType());
    type->dtype = DType::Float;
    type->ranked = true;
    for (int64_t size : {16, 8})
      type->dims.push_back(std::make_unique<DimExpr>(constantDim(size)));
    return type;
  };
  auto sum = std::make_unique<State>();
  sum->name = "grad";
  sum->scope = StateScope::Step;
  sum->type = matrix();
  plan->states.push_back(std::move(sum));
  plan->weights[0]->trainable = true;
  Program &last = addPhase(*plan, 1, Phase::BackwardInput, {{1, Phase::Forward}});
  emit(last, InstructionKind::Call, 1, {0}, {1}, {0});
  last.outputs = {1};
  Program &first = addPhase(*plan, 0, Phase::BackwardInput, {{0, Phase::Forward}, {1, Phase::BackwardInput}});
  emit(first, InstructionKind::Call, 1, {1}, {2}, {0, 1});
  first.outputs = {2};
  Program &weight = addPhase(*plan, 0, Phase::BackwardWeight, {{0, Phase::BackwardInput}});
  useWeight(weight, weight.slots++, 0);
  emit(weight, InstructionKind::StateAccumulate, 0, {1}, {}, {0});
  Program &update = addPhase(*plan, 0, Phase::Update, {});
  useWeight(update, update.slots++, 0);
  emit(update, InstructionKind::StateRead, 0, {}, {1}, {});
  emit(update, InstructionKind::WeightWrite, 0, {1}, {}, {});
  update.outputs = {1};
  auto output = std::make_unique<Output>();
  output->name = "grad";
  output->type = matrix();
  output->phase = Phase::Update;
  plan->signatures[0]->outputs.push_back(std::move(output));
  plan->signatures[0]->output_tree->children.push_back(std::make_unique<Tree>());
  plan->signatures[0]->output_tree->children[1]->leaf = 1;
  trainInSchedule(*plan->schedules[0]);
  plan->required_features = {"training"};
  return plan;
}

std::unique_ptr<Plan> makeOptimizerPlan() {
  auto plan = makeTrainingPlan();
  auto config = std::make_unique<OptimizerConfig>();
  config->optimizer = Optimizer::AdamW;
  config->beta1 = 0.9;
  config->beta2 = 0.999;
  config->epsilon = 1e-8;
  for (const char *name : {"exp_avg", "exp_avg_sq"}) {
    auto state = std::make_unique<State>();
    state->name = name;
    state->type = std::make_unique<TensorType>(*plan->states[0]->type);
    config->states.push_back(plan->states.size());
    plan->states.push_back(std::move(state));
  }
  Instruction &update = *plan->programs.back()->blocks[0]->instructions[1];
  update.kind = InstructionKind::WeightUpdate;
  update.operands.assign(5, 1);
  update.optimizer = std::move(config);
  return plan;
}

/// Bytes that differ from weight to weight.
static std::vector<uint8_t> dataOf(const TensorEntry &entry) {
  int64_t count = bytesOf(entry.dtype);
  for (int64_t size : entry.shape)
    count *= size;
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), static_cast<uint8_t>(entry.name.size()));
  return bytes;
}

std::unique_ptr<Plan> writeTwoStagePlan(llvm::StringRef folder) {
  return writePlan(folder, makeTwoStagePlan());
}

std::unique_ptr<Plan> writePlan(llvm::StringRef folder, std::unique_ptr<Plan> plan) {
  for (const auto &file : plan->shard_files) {
    std::vector<TensorEntry> entries;
    for (const auto &weight : plan->weights)
      if (weight->shards[0]->rank == file->rank)
        entries.push_back({weight->shards[0]->key, weight->dtype, weight->shards[0]->shape});
    auto write = [&](size_t entry, ByteSink sink) { return sink(dataOf(entries[entry])); };
    WrittenFile written = llvm::cantFail(writeSafetensors((folder + "/" + file->name).str(), entries, write));
    file->bytes = written.bytes;
    *file->hash = toHash(written.digest);
  }
  std::vector<uint8_t> bytes = encode(*plan);
  llvm::StringRef text(reinterpret_cast<char *>(bytes.data()), bytes.size());
  llvm::cantFail(writeFileAtomically((folder + "/" + kPlanFileName).str(), text));
  return plan;
}

//===- Files --------------------------------------------------------------===//

std::string messageOf(llvm::Error error) { return error ? toString(std::move(error)) : std::string(); }

TestFolder::TestFolder() {
  llvm::SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("cleave-test", path))
    llvm::report_fatal_error(llvm::Twine(error.message()));
  folder = path.str();
}

TestFolder::~TestFolder() { llvm::sys::fs::remove_directories(folder); }

std::string TestFolder::at(llvm::StringRef name) const { return (folder + "/" + name).str(); }

std::vector<std::string> TestFolder::names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(llvm::sys::path::filename(it->path()).str());
  std::sort(names.begin(), names.end());
  return names;
}

void writeFile(llvm::StringRef path, llvm::StringRef contents) {
  // Some file systems flush a file that is truncated and written again; a new one they do not.
  llvm::sys::fs::remove(path);
  std::error_code error;
  llvm::raw_fd_ostream(path, error) << contents;
}

std::string readFile(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : std::string();
}

} // namespace cleave::plan
