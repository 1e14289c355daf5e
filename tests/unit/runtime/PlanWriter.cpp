//===- PlanWriter.cpp - Little plans by hand ------------------------------===//
#include "tests/unit/runtime/PlanWriter.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "collectives/Collectives.h"
#include "runtime/base/DTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <map>
#include <set>
#include <utility>

namespace cleave::runtime {

using plan::ActionKind;
using plan::InstructionKind;

//===- Values -------------------------------------------------------------===//

plan::Constant integer(int64_t value) {
  plan::Constant constant;
  constant.kind = plan::ConstantKind::Int;
  constant.integer = value;
  return constant;
}

plan::Constant real(double value) {
  plan::Constant constant;
  constant.kind = plan::ConstantKind::Float;
  constant.real = value;
  return constant;
}

plan::Constant none() { return {}; }

plan::Constant text(std::string value) {
  plan::Constant constant;
  constant.kind = plan::ConstantKind::String;
  constant.text = std::move(value);
  return constant;
}

plan::Constant integers(llvm::ArrayRef<int64_t> values) {
  plan::Constant constant;
  constant.kind = plan::ConstantKind::List;
  constant.element = "int";
  for (int64_t value : values)
    constant.items.push_back(std::make_unique<plan::Constant>(integer(value)));
  return constant;
}

plan::TensorType tensorType(plan::DType dtype, llvm::ArrayRef<int64_t> dims) {
  plan::TensorType type;
  type.dtype = dtype;
  type.ranked = true;
  for (int64_t dim : dims)
    type.dims.push_back(
        std::make_unique<plan::DimExpr>(dim < 0 ? plan::symbolDim(-1 - dim) : plan::constantDim(dim)));
  return type;
}

//===- StageWriter --------------------------------------------------------===//

StageWriter::StageWriter(PlanWriter &plan, uint32_t stage, uint32_t rank, uint32_t tpRank)
    : writer(plan), rank(rank), program(std::make_unique<plan::Program>()) {
  program->stage = stage;
  program->tp_rank = tpRank;
  program->blocks.push_back(std::make_unique<plan::Block>());
}

Slots StageWriter::newSlots(size_t count) {
  Slots slots;
  while (slots.size() < count)
    slots.push_back(program->slots++);
  return slots;
}

uint32_t StageWriter::input(uint32_t leaf) {
  auto input = std::make_unique<plan::ProgramInput>();
  input->slot = newSlots(1)[0];
  input->source = plan::Source::Request;
  input->index = leaf;
  program->inputs.push_back(std::move(input));
  return program->inputs.back()->slot;
}

uint32_t StageWriter::receive(uint32_t stage, uint32_t result) {
  uint32_t slot = input(result);
  program->inputs.back()->source = plan::Source::Stage;
  program->inputs.back()->stage = stage;
  return slot;
}

/// Uses `part` of the weight `whole`, which the first mention enters in the plan.
plan::WeightShard &StageWriter::addWeight(const std::string &name, const at::Tensor &whole,
                                          const at::Tensor &part) {
  auto &table = writer.plan->weights;
  auto found = llvm::find_if(table, [&](const auto &weight) { return weight->name == name; });
  auto use = std::make_unique<plan::SlotWeight>();
  use->slot = newSlots(1)[0];
  use->weight = found - table.begin();
  program->weights.push_back(std::move(use));
  if (found == table.end()) {
    found = table.insert(found, std::make_unique<plan::Weight>());
    (*found)->name = name;
    (*found)->dtype = dtypeOf(whole.scalar_type());
    (*found)->shape = whole.sizes().vec();
  }
  auto shard = std::make_unique<plan::WeightShard>();
  shard->rank = rank;
  shard->key = name;
  shard->shape = part.sizes().vec();
  (*found)->shards.push_back(std::move(shard));
  weights.push_back({name, part});
  return *(*found)->shards.back();
}

uint32_t StageWriter::weight(const std::string &name, const at::Tensor &value) {
  addWeight(name, value, value);
  return program->weights.back()->slot;
}

uint32_t StageWriter::shard(const std::string &name, const at::Tensor &whole, int64_t dim,
                            llvm::ArrayRef<int64_t> ranges) {
  plan::WeightShard &shard =
      addWeight(name, whole, cleave::shard(whole, dim, {ranges.data(), ranges.size()}));
  shard.ranges.push_back(std::make_unique<plan::DimRanges>());
  shard.ranges[0]->dim = dim;
  for (size_t i = 0; i < ranges.size(); i += 2) {
    shard.ranges[0]->offsets.push_back(ranges[i]);
    shard.ranges[0]->sizes.push_back(ranges[i + 1]);
  }
  return program->weights.back()->slot;
}

uint32_t StageWriter::constant(const plan::Constant &value) {
  auto constant = std::make_unique<plan::SlotConstant>();
  constant->slot = newSlots(1)[0];
  constant->value = std::make_unique<plan::Constant>(value);
  program->constants.push_back(std::move(constant));
  return program->constants.back()->slot;
}

uint32_t StageWriter::size(const plan::DimExpr &value) {
  auto size = std::make_unique<plan::SlotSize>();
  size->slot = newSlots(1)[0];
  size->value = std::make_unique<plan::DimExpr>(value);
  program->sizes.push_back(std::move(size));
  return program->sizes.back()->slot;
}

uint32_t StageWriter::call(const std::string &op, Slots operands, const std::string &path, size_t results) {
  const auto kind = plan::isCollective(op) ? InstructionKind::Collective : InstructionKind::Call;
  uint32_t slot = emit(kind, std::move(operands), results)[0];
  plan::Instruction &instruction = *program->blocks[currentBlock]->instructions.back();
  instruction.op = writer.operatorIndex(op);
  instruction.path = writer.pathIndex(path);
  return slot;
}

uint32_t StageWriter::list(const std::string &element, Slots items) {
  return emit(InstructionKind::List, std::move(items), 1, {}, element)[0];
}

uint32_t StageWriter::stateIndex(const std::string &name) {
  auto &states = writer.plan->states;
  auto found = llvm::find_if(states, [&](const auto &state) { return state->name == name; });
  if (found != states.end())
    return found - states.begin();
  states.push_back(std::make_unique<plan::State>());
  states.back()->name = name;
  states.back()->type = std::make_unique<plan::TensorType>();
  states.back()->stage = program->stage;
  return states.size() - 1;
}

uint32_t StageWriter::readState(const std::string &name, uint32_t initial) {
  uint32_t slot = emit(InstructionKind::StateRead, {initial}, 1)[0];
  program->blocks[currentBlock]->instructions.back()->op = stateIndex(name);
  return slot;
}

uint32_t StageWriter::readRows(const std::string &name, uint32_t initial, int64_t width) {
  const uint32_t slot = readState(name, initial);
  plan::State &state = *writer.plan->states[stateIndex(name)];
  state.scope = plan::StateScope::Sequence;
  state.batch_dim = 0;
  *state.type = tensorType(plan::DType::Float, {width, width});
  *state.type->dims[0] = plan::unknownDim();
  return slot;
}

void StageWriter::writeState(const std::string &name, uint32_t value) {
  emit(InstructionKind::StateWrite, {value}, 0);
  program->blocks[currentBlock]->instructions.back()->op = stateIndex(name);
}

Slots StageWriter::emit(InstructionKind kind, Slots operands, size_t results, Slots blocks,
                        const std::string &element) {
  auto instruction = std::make_unique<plan::Instruction>();
  instruction->kind = kind;
  instruction->operands = std::move(operands);
  instruction->results = newSlots(results);
  instruction->blocks = std::move(blocks);
  instruction->element = element;
  auto &instructions = program->blocks[currentBlock]->instructions;
  instructions.push_back(std::move(instruction));
  return instructions.back()->results;
}

uint32_t StageWriter::block(size_t params, llvm::function_ref<Slots(Slots)> body) {
  uint32_t outer = currentBlock, index = currentBlock = program->blocks.size();
  program->blocks.push_back(std::make_unique<plan::Block>());
  program->blocks[index]->params = newSlots(params);
  Slots results = body(program->blocks[index]->params);
  program->blocks[index]->results = results;
  currentBlock = outer;
  return index;
}

void StageWriter::predict(uint32_t slot, const plan::TensorType &type) {
  program->types.push_back(std::make_unique<plan::SlotType>());
  program->types.back()->slot = slot;
  program->types.back()->type = std::make_unique<plan::TensorType>(type);
}

uint32_t StageWriter::output(uint32_t slot) {
  program->outputs.push_back(slot);
  return program->outputs.size() - 1;
}

/// The slots that an instruction reads, its blocks included.
static std::set<uint32_t> readsOf(const plan::Program &program, const plan::Instruction &instruction) {
  std::set<uint32_t> reads(instruction.operands.begin(), instruction.operands.end());
  for (uint32_t index : instruction.blocks) {
    const plan::Block &block = *program.blocks[index];
    reads.insert(block.results.begin(), block.results.end());
    for (const auto &inner : block.instructions)
      reads.merge(readsOf(program, *inner));
  }
  return reads;
}

void StageWriter::writeReleases() {
  for (auto [index, block] : llvm::enumerate(program->blocks)) {
    const Slots &kept = index == 0 ? program->outputs : block->results;
    std::map<uint32_t, plan::Instruction *> lastUse;
    if (index == 0)
      for (const auto &input : program->inputs)
        lastUse[input->slot] = nullptr;
    for (uint32_t slot : block->params)
      lastUse[slot] = nullptr;
    for (const auto &instruction : block->instructions) {
      for (uint32_t slot : readsOf(*program, *instruction))
        if (lastUse.count(slot))
          lastUse[slot] = instruction.get();
      for (uint32_t slot : instruction->results)
        lastUse[slot] = instruction.get();
    }
    for (auto [slot, instruction] : lastUse)
      if (instruction && !llvm::is_contained(kept, slot))
        instruction->releases.push_back(slot);
  }
}

//===- PlanWriter ---------------------------------------------------------===//

PlanWriter::PlanWriter(Slots pipelineRanks, uint32_t tp) : plan(std::make_unique<plan::Plan>()) {
  plan->fingerprint = std::make_unique<plan::wire::Hash>();
  plan->mesh = std::make_unique<plan::Mesh>();
  plan->mesh->pp = std::set<uint32_t>(pipelineRanks.begin(), pipelineRanks.end()).size();
  plan->mesh->tp = tp;
  plan->paths = {""};
  plan->signatures.push_back(std::make_unique<plan::Signature>());
  plan->signatures[0]->name = "forward";
  for (auto tree : {&plan::Signature::input_tree, &plan::Signature::output_tree}) {
    (*plan->signatures[0]).*tree = std::make_unique<plan::Tree>();
    ((*plan->signatures[0]).*tree)->kind = plan::TreeKind::Tuple;
  }
  for (auto [index, pipelineRank] : llvm::enumerate(pipelineRanks)) {
    plan->stages.push_back(std::make_unique<plan::Stage>());
    plan->stages.back()->index = index;
    for (uint32_t rank = 0; rank < tp; ++rank) {
      plan->stages.back()->ranks.push_back(pipelineRank * tp + rank);
      stages.push_back(StageWriter(*this, index, pipelineRank * tp + rank, rank));
    }
  }
}

static void addLeaf(plan::Tree &tree) {
  tree.children.push_back(std::make_unique<plan::Tree>());
  tree.children.back()->leaf = tree.children.size() - 1;
}

uint32_t PlanWriter::symbol(const std::string &name, int64_t traced) {
  auto &symbols = plan->signatures[0]->symbols;
  symbols.push_back(std::make_unique<plan::Symbol>());
  symbols.back()->name = name;
  symbols.back()->traced = traced;
  return symbols.size() - 1;
}

uint32_t PlanWriter::input(const std::string &name, const plan::TensorType &type) {
  auto &inputs = plan->signatures[0]->inputs;
  inputs.push_back(std::make_unique<plan::Input>());
  inputs.back()->name = name;
  inputs.back()->type = std::make_unique<plan::TensorType>(type);
  addLeaf(*plan->signatures[0]->input_tree);
  return inputs.size() - 1;
}

void PlanWriter::output(const std::string &name, uint32_t stage, uint32_t result) {
  auto output = std::make_unique<plan::Output>();
  output->name = name;
  output->type = std::make_unique<plan::TensorType>();
  output->stage = stage;
  output->index = result;
  plan->signatures[0]->outputs.push_back(std::move(output));
  addLeaf(*plan->signatures[0]->output_tree);
}

static uint32_t indexIn(std::vector<std::string> &table, const std::string &entry) {
  auto found = llvm::find(table, entry);
  if (found == table.end())
    found = table.insert(found, entry);
  return found - table.begin();
}

uint32_t PlanWriter::operatorIndex(const std::string &name) { return indexIn(plan->operators, name); }
uint32_t PlanWriter::pathIndex(const std::string &path) { return indexIn(plan->paths, path); }

void PlanWriter::splitBatch(uint32_t count) {
  microbatches = count;
  plan->signatures[0]->batch = 0;
  for (auto &output : plan->signatures[0]->outputs)
    output->type = std::make_unique<plan::TensorType>(tensorType(plan::DType::Float, {-1, 4}));
}

void PlanWriter::addDataRanks(uint32_t count) {
  const uint32_t tp = plan->mesh->tp;
  plan->mesh->dp = count;
  auto rankOf = [&](uint32_t rank, uint32_t dpRank) { return (rank / tp * count + dpRank) * tp + rank % tp; };
  for (auto &stage : plan->stages) {
    const Slots ranks = std::exchange(stage->ranks, {});
    for (uint32_t dpRank = 0; dpRank < count; ++dpRank)
      for (uint32_t rank : ranks)
        stage->ranks.push_back(rankOf(rank, dpRank));
  }
  for (auto &weight : plan->weights)
    for (const auto &shard : std::exchange(weight->shards, {}))
      for (uint32_t dpRank = 0; dpRank < count; ++dpRank) {
        weight->shards.push_back(std::make_unique<plan::WeightShard>(*shard));
        weight->shards.back()->rank = rankOf(shard->rank, dpRank);
      }
}

static uint32_t rankCount(const plan::Mesh &mesh) { return mesh.pp * mesh.dp * mesh.tp; }

void PlanWriter::writeSchedule() {
  auto schedule = std::make_unique<plan::Schedule>();
  schedule->name = "gpipe";
  for (uint32_t rank = 0; rank < rankCount(*plan->mesh); ++rank) {
    schedule->ranks.push_back(std::make_unique<plan::RankActions>());
    schedule->ranks.back()->rank = rank;
  }
  auto rankOf = [&](uint32_t stage) { return plan->stages[stage]->ranks[0]; };
  auto act = [&](ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer) {
    for (uint32_t rank : plan->stages[stage]->ranks) {
      auto action = std::make_unique<plan::Action>();
      action->kind = kind;
      action->stage = stage;
      action->microbatch = microbatch;
      action->peer_stage = peer;
      schedule->ranks[rank]->actions.push_back(std::move(action));
    }
  };
  schedule->microbatches = microbatches;
  for (uint32_t microbatch = 0; microbatch < microbatches; ++microbatch)
    for (uint32_t stage = 0; stage < plan->stages.size(); ++stage) {
      for (const plan::Transfer &transfer : plan::transfers(*plan, 0))
        if (transfer.to == stage && rankOf(transfer.from) != rankOf(stage))
          act(ActionKind::Recv, stage, microbatch, transfer.from);
      act(ActionKind::Forward, stage, microbatch, 0);
      for (const plan::Transfer &transfer : plan::transfers(*plan, 0))
        if (transfer.from == stage && rankOf(transfer.to) != rankOf(stage))
          act(ActionKind::Send, stage, microbatch, transfer.to);
    }
  plan->schedules.push_back(std::move(schedule));
}

void PlanWriter::writeShards(const std::string &directory) {
  for (uint32_t rank = 0; rank < rankCount(*plan->mesh); ++rank) {
    const uint32_t tp = plan->mesh->tp, own = rank / (tp * plan->mesh->dp) * tp + rank % tp;
    std::vector<plan::TensorEntry> entries;
    std::vector<at::Tensor> tensors;
    for (const StageWriter &stage : stages)
      if (stage.rank == own)
        for (const NamedTensor &weight : stage.weights) {
          tensors.push_back(weight.tensor.contiguous());
          entries.push_back({weight.name, dtypeOf(weight.tensor.scalar_type()), weight.tensor.sizes().vec()});
        }
    auto file = std::make_unique<plan::ShardFile>();
    file->rank = rank;
    file->name = plan::shardFileName(rank);
    auto write = [&](size_t entry, plan::ByteSink sink) {
      return sink({static_cast<const uint8_t *>(tensors[entry].const_data_ptr()), tensors[entry].nbytes()});
    };
    auto written = llvm::cantFail(plan::writeSafetensors(directory + "/" + file->name, entries, write));
    file->bytes = written.bytes;
    file->hash = std::make_unique<plan::wire::Hash>(plan::toHash(written.digest));
    plan->shard_files.push_back(std::move(file));
  }
}

void PlanWriter::write(const std::string &directory) {
  llvm::sys::fs::create_directory(directory);
  for (StageWriter &stage : stages) {
    stage.writeReleases();
    plan->programs.push_back(std::move(stage.program));
  }
  writeSchedule();
  writeShards(directory);
  plan->groups = plan::groupsOf(*plan->mesh);
  plan->required_features = requiredFeatures(*plan);
  std::vector<uint8_t> bytes = plan::encode(*plan);
  llvm::cantFail(plan::writeFileAtomically(directory + "/" + plan::kPlanFileName,
                                           {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
}

} // namespace cleave::runtime
