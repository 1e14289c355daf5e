//===- BombTest.cpp - Plans of 1.5 MB that are meant to cost more ---------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Safetensors.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace cleave::plan {

using Bytes = std::vector<uint8_t>;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// What a bomb may take; before there were bounds, each took several times as much of one of the two.
static constexpr rlim_t kSeconds = 5, kMemory = 64 << 20;

/// Bytes of this process' private memory, used or not.
static rlim_t privateBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (rlim_t kilobytes; word == "VmData:" && status >> kilobytes)
      return kilobytes << 10;
  std::abort();
}

static void limit(int resource, rlim_t most) {
  const rlimit limits = {most, most};
  setrlimit(resource, &limits);
}

/// Decodes in a process that ends where it takes too much, and says what was wrong.
static void decodeLimited(const Bytes &bytes) {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  limit(RLIMIT_CPU, used.ru_utime.tv_sec + used.ru_stime.tv_sec + kSeconds);
  limit(RLIMIT_DATA, privateBytes() + kMemory);
  llvm::errs() << messageOf(decode(bytes, "plan.fb")) << "\n";
  _exit(0);
}

static void expectRefused(const Bytes &bytes, const char *why) {
  EXPECT_LE(bytes.size(), 1'600'000u);
  EXPECT_GE(bytes.size(), 500'000u);
  EXPECT_EXIT(decodeLimited(bytes), testing::ExitedWithCode(0), why);
}

/// The file of a payload that no `encode` has made.
static Bytes sealed(const FlatBufferBuilder &builder) {
  static constexpr size_t kHeaderBytes = 64;
  Bytes bytes = encode(*makeTwoStagePlan());
  bytes.resize(kHeaderBytes);
  llvm::ArrayRef<uint8_t> payload(builder.GetBufferPointer(), builder.GetSize());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  llvm::support::endian::write64le(&bytes[16], payload.size());
  llvm::copy(checksum(payload), bytes.begin() + 32);
  return bytes;
}

/// A plan whose `add` sets a table of `count` entries that `make` makes.
template <typename Table>
static Bytes planOfTables(size_t count, llvm::function_ref<Offset<Table>(FlatBufferBuilder &)> make,
                          void (wire::PlanBuilder::*add)(Offset<flatbuffers::Vector<Offset<Table>>>)) {
  FlatBufferBuilder builder;
  std::vector<Offset<Table>> tables;
  for (size_t i = 0; i < count; ++i)
    tables.push_back(make(builder));
  auto vector = builder.CreateVector(tables);
  wire::PlanBuilder plan(builder);
  (plan.*add)(vector);
  builder.Finish(plan.Finish());
  return sealed(builder);
}

// Eight bytes each in the file, 200 and more in memory.
TEST(Bomb, ManyTablesWithNothingInThem) {
  auto program = [](FlatBufferBuilder &builder) { return wire::ProgramBuilder(builder).Finish(); };
  expectRefused(planOfTables<wire::Program>(190'000, program, &wire::PlanBuilder::add_programs),
                "many tables with nothing in them");
  auto weight = [](FlatBufferBuilder &builder) { return wire::WeightBuilder(builder).Finish(); };
  expectRefused(planOfTables<wire::Weight>(190'000, weight, &wire::PlanBuilder::add_weights),
                "many tables with nothing in them");
}

// FlatBuffers' verifier follows the vector for each weight.
TEST(Bomb, OneVectorOfStringsForManyTables) {
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> aliases;
  auto weight = [&](FlatBufferBuilder &builder) {
    if (aliases.IsNull())
      aliases = builder.CreateVector(
          std::vector<Offset<flatbuffers::String>>(150'000, builder.CreateString(std::string(100, 'x'))));
    wire::WeightBuilder one(builder);
    one.add_aliases(aliases);
    return one.Finish();
  };
  expectRefused(planOfTables<wire::Weight>(70'000, weight, &wire::PlanBuilder::add_weights),
                "its parts overlap");
}

TEST(Bomb, OneTableForManyOffsets) {
  Offset<wire::Note> note;
  auto same = [&](FlatBufferBuilder &builder) {
    if (note.IsNull())
      note = wire::CreateNoteDirect(builder, "kind", "path", "op", std::string(10'000, 'x').c_str());
    return note;
  };
  expectRefused(planOfTables<wire::Note>(350'000, same, &wire::PlanBuilder::add_notes), "its parts overlap");
}

TEST(Bomb, OneTreeOfConstantsInManyPlaces) {
  // Each level twice in the next: 2^60 constants.
  auto constant = [](FlatBufferBuilder &builder) {
    Offset<wire::Constant> inner = wire::CreateConstant(builder, wire::ConstantKind::None);
    for (int level = 0; level < 60; ++level)
      inner = wire::CreateConstant(builder, wire::ConstantKind::Tuple, 0, 0, 0, 0, 0,
                                   builder.CreateVector(std::vector<Offset<wire::Constant>>{inner, inner}));
    auto slot = builder.CreateVector(std::vector{wire::CreateSlotConstant(builder, 0, inner)});
    // Enough to be one of the larger ones.
    auto paths = builder.CreateVector(std::vector<uint32_t>(250'000));
    wire::ProgramBuilder program(builder);
    program.add_constants(slot);
    program.add_outputs(paths);
    return program.Finish();
  };
  expectRefused(planOfTables<wire::Program>(1, constant, &wire::PlanBuilder::add_programs), "malformed");
}

TEST(Bomb, DeepConstants) {
  auto constant = [](FlatBufferBuilder &builder) {
    Offset<wire::Constant> inner = wire::CreateConstant(builder, wire::ConstantKind::None);
    for (int level = 0; level < 40'000; ++level)
      inner = wire::CreateConstant(builder, wire::ConstantKind::Tuple, 0, 0, 0, 0, 0,
                                   builder.CreateVector(std::vector<Offset<wire::Constant>>{inner}));
    auto slot = builder.CreateVector(std::vector{wire::CreateSlotConstant(builder, 0, inner)});
    wire::ProgramBuilder program(builder);
    program.add_constants(slot);
    return program.Finish();
  };
  expectRefused(planOfTables<wire::Program>(1, constant, &wire::PlanBuilder::add_programs), "malformed");
}

/// The two-stage plan with many constants, about each of which there could be a message.
static std::unique_ptr<Plan> withConstants(uint32_t count) {
  auto plan = makeTwoStagePlan();
  Program &program = *plan->programs[0];
  for (uint32_t i = 0; i < count; ++i) {
    auto constant = std::make_unique<SlotConstant>();
    constant->slot = program.slots++;
    constant->value = std::make_unique<Constant>();
    program.constants.push_back(std::move(constant));
  }
  plan->capture_points[0]->slots[0]->slot = UINT32_MAX;
  return plan;
}

// Messages about each slot would begin with it.
TEST(Bomb, LongNames) {
  const std::string name(700'000, 'x');
  auto plan = withConstants(40'000);
  plan->signatures[0]->name = name;
  expectRefused(encode(*plan), "a name of 700000 bytes, expected at most 4096");
  plan = makeTwoStagePlan();
  plan->paths[1] = name;
  expectRefused(encode(*plan), "a name of 700000 bytes, expected at most 4096");
  plan = makeTwoStagePlan();
  plan->weights[0]->name = name;
  expectRefused(encode(*plan), "a name of 700000 bytes, expected at most 4096");
}

TEST(Bomb, NamesAsLongAsTheyMayBeInManyMessages) {
  auto plan = withConstants(60'000);
  plan->signatures[0]->name = std::string(4096, 'x');
  plan->paths[1] = std::string(4096, 'y');
  expectRefused(encode(*plan), "its program or slot is not there");
}

/// The two-stage plan with `data` data-parallel ranks.
static std::unique_ptr<Plan> withDataRanks(uint32_t data) {
  auto plan = makeTwoStagePlan();
  plan->mesh->dp = data;
  plan->groups = groupsOf(*plan->mesh);
  plan->shard_files.clear();
  auto &ranks = plan->schedules[0]->ranks;
  auto actions = std::move(ranks);
  ranks.clear();
  for (const auto &stage : plan->stages) {
    stage->ranks.clear();
    for (uint32_t i = 0; i < data; ++i) {
      const uint32_t rank = stage->index * data + i;
      stage->ranks.push_back(rank);
      auto copy = std::make_unique<RankActions>(*actions[stage->index]);
      copy->rank = rank;
      ranks.push_back(std::move(copy));
      plan->shard_files.push_back(std::make_unique<ShardFile>());
      ShardFile &file = *plan->shard_files.back();
      file.rank = rank;
      file.name = std::to_string(rank);
      file.bytes = 1024;
      file.hash = std::make_unique<wire::Hash>();
    }
  }
  for (const auto &weight : plan->weights) {
    const WeightShard first = *weight->shards[0];
    weight->shards.clear();
    for (uint32_t rank : plan->stages[first.rank]->ranks) {
      weight->shards.push_back(std::make_unique<WeightShard>(first));
      weight->shards.back()->rank = rank;
    }
  }
  return plan;
}

// Whether each rank has each use was looked up.
TEST(Bomb, ManyUsesOfAWeightOnManyRanks) {
  auto plan = withDataRanks(800);
  Program &program = *plan->programs[0];
  for (uint32_t i = 0; i < 40'000; ++i) {
    program.weights.push_back(std::make_unique<SlotWeight>());
    program.weights.back()->slot = program.slots++;
  }
  plan->capture_points[0]->slots[0]->slot = UINT32_MAX;
  expectRefused(encode(*plan), "its program or slot is not there");
}

// All stages of one rank give each other values, and each micro-batch waits for all of them.
TEST(Bomb, ManyMicrobatchesOfManyStages) {
  constexpr uint32_t stages = 200, microbatches = 150;
  auto plan = makeTwoStagePlan();
  plan->mesh->pp = 1;
  plan->stages.resize(1);
  plan->predictions.clear();
  plan->shard_files.resize(1);
  plan->weights.clear();
  plan->programs.clear();
  plan->capture_points[0]->stage = UINT32_MAX;
  plan->signatures[0]->outputs[0]->stage = stages - 1;
  plan->schedules[0]->ranks.resize(1);
  plan->schedules[0]->microbatches = microbatches;
  auto &actions = plan->schedules[0]->ranks[0]->actions;
  actions.clear();
  for (uint32_t stage = 0; stage < stages; ++stage) {
    if (stage > 0) {
      plan->stages.push_back(std::make_unique<Stage>(*plan->stages[0]));
      plan->stages.back()->index = stage;
    }
    auto program = std::make_unique<Program>();
    program->stage = stage;
    program->blocks.push_back(std::make_unique<Block>());
    for (uint32_t from = 0; from < std::max(stage, 1u); ++from) {
      auto input = std::make_unique<ProgramInput>();
      input->slot = program->slots++;
      input->source = stage == 0 ? Source::Request : Source::Stage;
      input->stage = from;
      program->inputs.push_back(std::move(input));
    }
    program->outputs = {0};
    plan->programs.push_back(std::move(program));
    for (uint32_t microbatch = 0; microbatch < microbatches; ++microbatch)
      actions.push_back(makeAction(ActionKind::Forward, stage, microbatch));
  }
  plan->capture_points.clear();
  // The last one is never run.
  actions.pop_back();
  expectRefused(encode(*plan), "stage 199 runs 149 times forward");
}

TEST(Bomb, MicrobatchesWithoutEnd) {
  auto plan = makeTwoStagePlan();
  plan->notes[0]->text = std::string(500'000, 'x');
  plan->schedules[0]->microbatches = UINT32_MAX;
  expectRefused(encode(*plan), "expected 4294967295 for 4294967295 micro-batches");
  plan->schedules[0]->slices = UINT32_MAX;
  expectRefused(encode(*plan), "micro-batches");
}

TEST(Bomb, ManyCandidates) {
  auto plan = makeTwoStagePlan();
  for (int i = 0; i < 15'000; ++i)
    plan->candidates.push_back(std::make_unique<MeshCandidate>(*plan->candidates[1]));
  expectRefused(encode(*plan), "expected at most 4096");
}

TEST(Bomb, SumsOfManySymbols) {
  auto plan = makeTwoStagePlan();
  plan->signatures[0]->symbols[0]->traced = 1;
  auto &type = plan->programs[0]->types[0]->type;
  for (int i = 0; i < 60; ++i) {
    auto dim = std::make_unique<DimExpr>(symbolDim(0));
    dim->terms[0]->symbols.assign(6'000, 0);
    type->dims.push_back(std::move(dim));
  }
  plan->capture_points[0]->slots[0]->slot = UINT32_MAX;
  expectRefused(encode(*plan), "its program or slot is not there");
}

// LLVM's tree has four kilobytes for each object.
TEST(Bomb, ObjectsInTheHeaderOfTensors) {
  TestFolder folder;
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += "\"" + std::to_string(i) + "\":{\"a\":0},";
  header.back() = '}';
  std::string length(8, '\0');
  llvm::support::endian::write64le(length.data(), header.size());
  writeFile(folder.at("file"), length + header);
  auto openLimited = [&] {
    limit(RLIMIT_DATA, privateBytes() + kMemory);
    llvm::errs() << messageOf(SafetensorsFile::open(folder.at("file"))) << "\n";
    _exit(0);
  };
  EXPECT_EXIT(openLimited(), testing::ExitedWithCode(0), "tensor '0': dtype '' is not supported");
}

} // namespace cleave::plan
