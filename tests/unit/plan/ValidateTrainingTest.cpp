//===- ValidateTrainingTest.cpp - Plans that train or keep sequences ------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanFile.h"
#include "tests/unit/plan/Mutation.h"
#include "tests/unit/plan/PlanBuilder.h"

namespace cleave::plan {

static void train(Plan &plan) { plan = std::move(*makeTrainingPlan()); }
static void takeStep(Plan &plan) { plan = std::move(*makeOptimizerPlan()); }
static Program &backward(Plan &plan) { return *plan.programs[3]; }
static Program &weightPass(Plan &plan) { return *plan.programs[4]; }
static Program &update(Plan &plan) { return *plan.programs[5]; }

TEST(ValidPlans, MayTrain) { EXPECT_EQ(messageOf(validate(*makeTrainingPlan())), ""); }
TEST(ValidPlans, MayTakeStepsOfOptimizers) { EXPECT_EQ(messageOf(validate(*makeOptimizerPlan())), ""); }

/// Two data-parallel ranks, which sum their gradients.
static void trainOverDataRanks(Plan &plan) {
  train(plan);
  plan.mesh->dp = 2;
  for (auto &stage : plan.stages)
    stage->ranks = {2 * stage->index, 2 * stage->index + 1};
  for (auto &weight : plan.weights) {
    weight->shards[0]->rank *= 2;
    weight->shards.push_back(copyOf(weight->shards[0]));
    ++weight->shards[1]->rank;
  }
  for (uint32_t rank : {2, 3}) {
    plan.shard_files.push_back(copyOf(plan.shard_files[0]));
    plan.shard_files[rank]->rank = rank;
    plan.shard_files[rank]->name = shardFileName(rank);
  }
  plan.groups = groupsOf(*plan.mesh);
  plan.buckets.push_back(std::make_unique<Bucket>());
  plan.buckets[0]->kind = GroupKind::Data;
  plan.buckets[0]->groups = {0};
  plan.buckets[0]->parts.push_back(std::make_unique<BucketPart>());
  plan.buckets[0]->parts[0]->states = {0};
  auto &ranks = plan.schedules[0]->ranks;
  ranks[0]->actions.insert(ranks[0]->actions.end() - 1, makeAction(ActionKind::Reduce, 0, 0));
  ranks.insert(ranks.begin() + 1, copyOf(ranks[0]));
  ranks.push_back(copyOf(ranks[2]));
  for (uint32_t rank = 0; rank < 4; ++rank)
    ranks[rank]->rank = rank;
}

TEST(ValidPlans, MaySumOverDataRanks) {
  auto plan = makeTwoStagePlan();
  trainOverDataRanks(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

static const Mutation kTraining[] = {
    MUTATION("FeatureNotListed", "the plan uses 'training' and does not list it", train(plan);
             plan.required_features.clear()),
    MUTATION("FeatureUnknown", "found 'async-collectives', this cleave has training and sequences",
             train(plan);
             plan.required_features.push_back("async-collectives")),
    MUTATION("PhaseUnknown", "of a signature, stage, tp rank or phase that is not there", train(plan);
             backward(plan).phase = static_cast<Phase>(9)),
    MUTATION("PhaseTwice", "stage 0 has two for one signature, phase and tp rank", train(plan);
             weightPass(plan).phase = Phase::BackwardInput),
    MUTATION("WeightPassAlone", "stage 0 has BackwardWeight without BackwardInput", train(plan);
             plan.programs.erase(plan.programs.begin() + 3)),
    MUTATION("GradientFromEarlier", "takes a value from stage 0 in a phase whose values it cannot have",
             train(plan);
             plan.programs[2]->inputs[0]->stage = 0),
    MUTATION("ForwardFromBackward", "takes a value from stage 0 in a phase whose values it cannot have",
             train(plan);
             second(plan).inputs[0]->phase = Phase::BackwardInput),
    MUTATION("StashOfNothing", "takes result 3 of stage 0, which has 1", train(plan);
             backward(plan).inputs[0]->index = 3),
    MUTATION("UpdateTakesValues", "takes a value from stage 0 in a phase", train(plan);
             plan.programs[5]->inputs.push_back(copyOf(weightPass(plan).inputs[0]));
             update(plan).inputs[0]->slot = update(plan).slots++),
    MUTATION("UpdateTakesTheBatch", "takes input 0 of the request, which micro-batches split", train(plan);
             update(plan).inputs.push_back(std::make_unique<ProgramInput>());
             update(plan).inputs[0]->slot = update(plan).slots++),
    MUTATION("SumReadTooEarly", "reads a sum over a step before it is whole", train(plan);
             instruction(weightPass(plan), 0, 0).kind = InstructionKind::StateRead;
             instruction(weightPass(plan), 0, 0).operands.clear();
             instruction(weightPass(plan), 0, 0).results = {2}; weightPass(plan).slots = 3),
    MUTATION("OutputOfNorm", "but comes from an update, which runs once", train(plan);
             update(plan).phase = Phase::Norm; plan.signatures[0]->outputs[1]->phase = Phase::Norm;
             plan.signatures[0]->outputs[1]->merge = OutputMerge::Sum),
    MUTATION("SumAddedInUpdate", "or adds to it in the update", train(plan);
             weightPass(plan).inputs[0]->source = Source::Request; weightPass(plan).phase = Phase::Update;
             plan.programs.erase(plan.programs.begin() + 5); plan.signatures[0]->batch = -1),
    MUTATION("SumOfAnotherRank", "writes a state that is not there or not of its stage", train(plan);
             plan.states[0]->stage = 1),
    MUTATION("NormTakesValues", "in a phase whose values it cannot have", train(plan);
             weightPass(plan).phase = Phase::Norm),
    MUTATION("SumWritten", "writes a sum over a step, or adds to a state that is none", train(plan);
             instruction(weightPass(plan), 0, 0).kind = InstructionKind::StateWrite),
    MUTATION("AddToSession", "or adds to a state that is none", train(plan);
             plan.states[0]->scope = StateScope::Session),
    MUTATION("ReadOperand", "takes 1 values and gives 1, which is not what its state needs", train(plan);
             instruction(update(plan), 0, 0).operands = {0}),
    MUTATION("SumType", "it is a sum over a step, but its type is not known", train(plan);
             plan.states[0]->type->dims[0] = std::make_unique<DimExpr>(unknownDim())),
    MUTATION("ScopeUnknown", "its scope is unknown", train(plan);
             plan.states[0]->scope = static_cast<StateScope>(7)),
    MUTATION("BatchDim", "its batch dimension is 2, it has 2", train(plan); plan.states[0]->batch_dim = 2),
    MUTATION("RowsOfAStep", "a state has rows for the batch if it lasts for sequences", train(plan);
             plan.states[0]->batch_dim = 0),
    MUTATION("LengthDim", "it grows along a dimension", train(plan); plan.states[0]->length_dim = 0),
    MUTATION(
        "StateShards", "parts for 2 tp ranks of a state, expected 1", train(plan); for (uint32_t i : {0, 1}) {
          plan.states[0]->shards.push_back(std::make_unique<StateShard>());
          plan.states[0]->shards.back()->tp_rank = i;
        }),
    MUTATION("WriteOfWeight", "writes a weight, expected in an update alone", train(plan);
             instruction(weightPass(plan), 0, 0).kind = InstructionKind::WeightWrite),
    MUTATION("WriteOfAnother", "writes a weight that the program does not have", train(plan);
             instruction(update(plan), 0, 1).op = 1),
    MUTATION("WriteOfFixed", "writes weight 'layer0.weight', which is not trainable", train(plan);
             plan.weights[0]->trainable = false),
    MUTATION("UpdateOfNoOptimizer", "is a step of an unknown optimizer", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer = nullptr),
    MUTATION("UpdateUnknown", "is a step of an unknown optimizer", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->optimizer = static_cast<Optimizer>(9)),
    MUTATION("UpdateBeta", "with a beta that is not from 0 to below 1", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->beta2 = 1),
    MUTATION("UpdateOption", "with an option that is no finite number of 0 or more", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->weight_decay = -1),
    MUTATION("UpdateOperands", "writes a weight that the program does not have", takeStep(plan);
             instruction(update(plan), 0, 1).operands.pop_back()),
    MUTATION("UpdateBeforeUpdate", "writes a weight, expected in an update alone", takeStep(plan);
             instruction(weightPass(plan), 0, 0).kind = InstructionKind::WeightUpdate),
    MUTATION("UpdateByAWeight", "takes a gradient that is no sum over the step", takeStep(plan);
             instruction(update(plan), 0, 1).operands[0] = 0),
    MUTATION("UpdateStates", "with 1 states, expected 2", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->states.pop_back()),
    MUTATION("UpdateStateRange", "keeps what is no state of the session", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->states[0] = 9),
    MUTATION("UpdateOfASum", "keeps what is no state of the session", takeStep(plan);
             instruction(update(plan), 0, 1).optimizer->states[0] = 0),
    MUTATION("UpdateStateType", "keeps state 'exp_avg', which is not of the type of its weight",
             takeStep(plan);
             plan.states[1]->type->dims.pop_back()),
    MUTATION("SetupOfTrainable", "sets the program up with a weight that is trainable", setUp(plan);
             plan.weights[0]->trainable = true),
    MUTATION("OutputPhase", "is result 0 of stage 1, which has fewer", train(plan);
             signature(plan).outputs[1]->stage = 1),
    MUTATION("OutputOfUpdateWithBatch",
             "it has a batch dimension, but is a sum over the batch, or of an update", train(plan);
             signature(plan).outputs[0]->merge = OutputMerge::Sum),
    MUTATION("Append", "is StateAppend, which this version does not run", train(plan);
             instruction(update(plan), 0, 1).kind = InstructionKind::StateAppend),
    MUTATION("ActionWithoutProgram", "B0.0 comes before any program that it could run",
             plan.schedules[0]->ranks[0]->actions.insert(plan.schedules[0]->ranks[0]->actions.begin() + 1,
                                                         makeAction(ActionKind::BackwardInput, 0, 0))),
    MUTATION("NoUpdate", "stage 0 runs 0 times its update, expected 1", train(plan);
             plan.schedules[0]->ranks[0]->actions.pop_back()),
    MUTATION("SliceRange", "there are 1 slices", plan.schedules[0]->ranks[0]->actions[0]->slice = 1),
    MUTATION("SymbolSource", "is no dimension of an input, which this version does not run",
             signature(plan).symbols[0]->source = SymbolSource::StateLength),
    MUTATION(
        "NoReduction", "U0 comes before the reduction of bucket 0", trainOverDataRanks(plan);
        for (uint32_t rank : {0, 1}) {
          auto &actions = plan.schedules[0]->ranks[rank]->actions;
          actions.erase(actions.end() - 2);
        }),
    MUTATION("BucketRange", "the bucket does not exist or has nothing of this stage",
             trainOverDataRanks(plan);
             (plan.schedules[0]->ranks[0]->actions.end() - 2)->get()->bucket = 1),
    MUTATION("BucketGroups", "a rank of its stages is in no group", trainOverDataRanks(plan);
             plan.buckets[0]->groups.clear()),
    MUTATION("BucketGroupOfOthers", "rank 2 has no part, or is in two groups", trainOverDataRanks(plan);
             plan.buckets[0]->groups = {1}),
    MUTATION("BucketState", "state 1 is no sum over a step in stage 0", trainOverDataRanks(plan);
             plan.buckets[0]->parts[0]->states = {1}),
    MUTATION("BucketTwice", "state 'grad' is summed twice over groups of one kind", trainOverDataRanks(plan);
             plan.buckets.push_back(copyOf(plan.buckets[0]))),
    MUTATION("BucketAxis", "of a kind that is neither Data nor Tied", trainOverDataRanks(plan);
             plan.buckets[0]->kind = GroupKind::Tensor),
    MUTATION("TieOfOneStage", "it has 1 parts, expected one along Data", trainOverDataRanks(plan);
             plan.buckets[0]->kind = GroupKind::Tied),
    MUTATION("TiedGroupPlaces", "group 2: rank 3 is no later one, or has another place",
             trainOverDataRanks(plan);
             plan.groups.push_back(std::make_unique<Group>()); plan.groups[2]->kind = GroupKind::Tied;
             plan.groups[2]->ranks = {0, 3}),
    MUTATION("TiedGroupSize", "group 2: it has less than two ranks", trainOverDataRanks(plan);
             plan.groups.push_back(std::make_unique<Group>()); plan.groups[2]->kind = GroupKind::Tied),
};

/// Stage 0 reads a state with a row for each sample.
static void keepRows(Plan &plan) {
  addState(plan, 0);
  State &state = *plan.states[0];
  state.scope = StateScope::Sequence;
  state.batch_dim = 0;
  state.type->ranked = true;
  for (const DimExpr &dim : {unknownDim(), constantDim(8)})
    state.type->dims.push_back(std::make_unique<DimExpr>(dim));
  Instruction &read = instruction(first(plan), 0, 0);
  read.kind = InstructionKind::StateRead;
  read.op = 0;
  read.operands = {0};
  signature(plan).batch = 0;
  plan.required_features = {"sequences"};
}

static void takeInOnePiece(Plan &plan) {
  Schedule &schedule = *plan.schedules[0];
  schedule.microbatches = 1;
  for (const auto &rank : schedule.ranks)
    llvm::erase_if(rank->actions, [](const auto &action) { return action->microbatch > 0; });
}

TEST(ValidPlans, MayKeepRows) {
  auto plan = makeTwoStagePlan();
  keepRows(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

static const Mutation kSequences[] = {
    MUTATION("RowsWithoutBatch", "a state has rows for the batch in a signature that has no batch",
             keepRows(plan);
             signature(plan).batch = -1; takeInOnePiece(plan)),
    MUTATION("RowsOfKnownNumber", "it has 4 rows, expected a number that each sequence decides",
             keepRows(plan);
             *plan.states[0]->type->dims[0] = constantDim(4)),
    MUTATION("RowsOfNoSequence", "a state has rows for the batch if it lasts for sequences", keepRows(plan);
             plan.states[0]->batch_dim = -1),
    MUTATION("SequencesNotListed", "the plan uses 'sequences' and does not list it", keepRows(plan);
             plan.required_features.clear()),
    MUTATION("SumOfAnUpdate", "it is a sum over micro-batches, but comes from an update, which runs once",
             train(plan);
             signature(plan).outputs[0]->phase = Phase::Update;
             signature(plan).outputs[0]->merge = OutputMerge::Sum),
    MUTATION("RowsInAnUpdate",
             "reads or writes a state with rows for the batch, expected in a forward program", train(plan);
             plan.states[0]->scope = StateScope::Sequence; plan.states[0]->batch_dim = 0;
             *plan.states[0]->type->dims[0] = unknownDim(); plan.buckets.clear();
             instruction(weightPass(plan), 0, 0).kind = InstructionKind::StateWrite),
};

INSTANTIATE_TEST_SUITE_P(Sequences, Validate, testing::ValuesIn(kSequences), nameOf);
INSTANTIATE_TEST_SUITE_P(Training, Validate, testing::ValuesIn(kTraining), nameOf);

} // namespace cleave::plan
