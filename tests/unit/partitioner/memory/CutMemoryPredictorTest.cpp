// Random functions, split at random over tensor-parallel ranks and cut into stages: what is said of a cut
// before the split is what the rank that holds most is predicted to hold.
#include "ir/Cleave.h"
#include "partitioner/memory/CutMemoryPredictor.h"
#include "mlir/Parser/Parser.h"
#include "partitioner/memory/SpecializeRank.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "tests/unit/codegen/RandomProgram.h"
#include "tests/unit/codegen/RandomSharding.h"
#include "tests/unit/codegen/RandomValues.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// By pipeline rank, of one tensor-parallel rank of a function that is split into stages.
std::vector<RankMemory> heldBy(func::FuncOp function, unsigned tpRank, uint32_t ranks) {
  OwningOpRef<func::FuncOp> own(cast<func::FuncOp>(function->clone()));
  EXPECT_TRUE(succeeded(specializeRank(*own, tpRank)));
  const auto microbatch = Microbatch::of(*own, "", 1);
  EXPECT_TRUE(succeeded(microbatch));
  std::vector<RankMemory> held(ranks);
  for (auto stage : own->getBody().getOps<StageOp>()) {
    const StageMemory memory = memoryOf(stage, microbatch->inferred, microbatch->shapes, /*threads=*/1,
                                        /*microbatches=*/1);
    RankMemory &rank = held[stage.getIndex() % ranks];
    rank.weights += memory.weightBytes;
    rank.activations = std::max(rank.activations, memory.activationBytes);
  }
  return held;
}

/// How many ranks of the pipeline have a tensor-parallel rank that holds more than the first.
int checkProgram(uint32_t seed) {
  Dice dice(seed);
  const unsigned tensorParallelSize = 2 + dice.below(3);
  const std::string text = RandomProgram(dice, 2 + seed % 14, /*isExact=*/false).text();
  auto module = parseSourceString<ModuleOp>(text, &testContext());
  auto function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(succeeded(runPasses(*module, "strip-boundaries,canonicalize,cse")));
  addRandomShardingSeeds(function, dice, tensorParallelSize);
  EXPECT_TRUE(
      succeeded(runPasses(*module, "propagate-sharding,insert-reshards,partition-spmd,optimize-collectives,"
                                   "canonicalize,cse,infer-types")));
  const Machine machine = Machine::cpu(8 * tensorParallelSize);
  const ModelGraph model = buildModelGraph(function, DeviceGroup::of(machine, 0, 1, 1), 8);
  if (model.nodes.empty())
    return 0;
  const uint32_t stages = 1 + dice.below(std::min<size_t>(model.nodes.size(), 4)),
                 ranks = 1 + dice.below(stages);
  std::vector<uint32_t> stageOf;
  Builder b(function.getContext());
  for (auto [node, ops] : llvm::enumerate(model.nodes)) {
    stageOf.push_back(node * stages / model.nodes.size());
    for (Operation *op : ops)
      op->setAttr(kStageIndexAttr, b.getI64IntegerAttr(stageOf.back()));
  }
  const auto memory = CutMemoryPredictor::make(function, "", 1, machine);
  EXPECT_TRUE(memory);
  const std::vector<RankMemory> held = memory->of(model, stageOf, ranks);
  EXPECT_TRUE(succeeded(runPasses(*module, "split-stages")));
  const std::vector<RankMemory> first = heldBy(function, 0, ranks);
  std::vector<RankMemory> most = first;
  for (unsigned tpRank = 1; tpRank < tensorParallelSize; ++tpRank)
    for (auto [own, known] : llvm::zip(heldBy(function, tpRank, ranks), most))
      if (own.bytes() > known.bytes())
        known = own;
  int more = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(held[rank].weights, most[rank].weights);
    EXPECT_EQ(held[rank].activations, most[rank].activations);
    more += most[rank].bytes() > first[rank].bytes();
  }
  return more;
}

// CLEAVE_PROPERTY_CASES as in SpmdProgramTest.cpp; of a thousand some have views of weights that go to a
// stage which has the weight, too, of which more is said than is held.
TEST(CutMemoryPredictorTest, IsThatOfTheTensorRankThatHoldsMost) {
  const char *cases = std::getenv("CLEAVE_PROPERTY_CASES");
  int more = 0;
  for (uint32_t seed = 0; seed < (cases ? std::stoul(cases) : 150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    more += checkProgram(seed);
  }
  EXPECT_GT(more, 0);
}

} // namespace
} // namespace cleave
