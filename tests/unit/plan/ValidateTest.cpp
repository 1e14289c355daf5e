//===- ValidateTest.cpp - What validate refuses ---------------------------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanFile.h"
#include "tests/unit/plan/Mutation.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <limits>
#include <tuple>

namespace cleave::plan {

static WeightShard &shard(Plan &plan) { return *plan.weights[0]->shards[0]; }

static std::unique_ptr<DimExpr> makeHuge() {
  return std::make_unique<DimExpr>(constantDim(std::numeric_limits<int64_t>::max()));
}

/// A tuple in a tuple in a tuple …
template <typename T, typename Kind>
static std::unique_ptr<T> nest(int depth, Kind kind, std::vector<std::unique_ptr<T>> T::*children) {
  auto value = std::make_unique<T>();
  for (; depth > 0; --depth) {
    auto outer = std::make_unique<T>();
    outer->kind = kind;
    ((*outer).*children).push_back(std::move(value));
    value = std::move(outer);
  }
  return value;
}

/// Turns the if of the second program into a loop of one carried value, which passes.
static void makeLoop(Plan &plan) {
  Program &program = second(plan);
  Instruction &loop = instruction(program, 0, 0);
  loop.kind = InstructionKind::Loop;
  loop.operands = {1, 2, 0};
  loop.blocks = {1};
  program.blocks.pop_back();
  program.blocks[1]->params = {5, 6};
  program.blocks[1]->results = {2, 4};
  instruction(program, 1, 0).operands = {6, 1};
  program.slots = 7;
}

/// Turns the if of the second program into a vjp with one gradient, which passes.
static void makeVjp(Plan &plan) {
  Program &program = second(plan);
  Instruction &vjp = instruction(program, 0, 0);
  vjp.kind = InstructionKind::Vjp;
  vjp.operands = {0, 0, 1};
  vjp.results = {3, 6};
  vjp.releases = {0, 6};
  vjp.blocks = {1};
  program.blocks.pop_back();
  program.blocks[1]->params = {5, 7};
  instruction(program, 1, 0).operands = {5, 7};
  program.slots = 8;
}

static void setConstant(Plan &plan, ConstantKind kind, std::string element, ConstantKind item) {
  Constant &constant = *second(plan).constants[0]->value;
  constant.kind = kind;
  constant.element = std::move(element);
  constant.items.push_back(std::make_unique<Constant>());
  constant.items[0]->kind = item;
}

TEST_P(Validate, Refuses) {
  auto plan = makeTwoStagePlan();
  GetParam().apply(*plan);
  std::string message = messageOf(validate(*plan));
  EXPECT_NE(message.find(GetParam().message), std::string::npos)
      << "expected: " << GetParam().message << "\nfound: " << message;
}

TEST(ValidPlans, Pass) {
  auto plan = makeTwoStagePlan();
  EXPECT_EQ(messageOf(validate(*plan)), "");
  makeLoop(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
  plan = makeTwoStagePlan();
  makeVjp(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

TEST(ValidPlans, MaySetUp) {
  auto plan = makeTwoStagePlan();
  setUp(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

static void setRanges(WeightShard &shard, uint32_t dim, std::vector<int64_t> offsets,
                      std::vector<int64_t> sizes) {
  shard.ranges.resize(1);
  shard.ranges[0] = std::make_unique<DimRanges>();
  shard.ranges[0]->dim = dim;
  shard.ranges[0]->offsets = std::move(offsets);
  shard.ranges[0]->sizes = std::move(sizes);
}

TEST(ValidPlans, MayHoldSegmentedShards) {
  auto plan = makeTwoStagePlan();
  plan->weights[0]->shape = {48, 8};
  setRanges(shard(*plan), 0, {0, 16, 40}, {4, 4, 8});
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

/// Two tensor-parallel ranks for each rank, which split the first weight unevenly and add up the first
/// program's result.
static void splitTensors(Plan &plan) {
  plan.mesh->tp = 2;
  plan.operators = {"aten::linear", "spmd::all_reduce", "spmd::broadcast"};
  for (auto &stage : plan.stages)
    stage->ranks = {2 * stage->index, 2 * stage->index + 1};
  for (size_t i : {0, 1}) {
    plan.programs.push_back(copyOf(plan.programs[i]));
    plan.programs.back()->tp_rank = 1;
  }
  for (auto &weight : plan.weights) {
    weight->shards[0]->rank *= 2;
    weight->shards.push_back(copyOf(weight->shards[0]));
    ++weight->shards[1]->rank;
  }
  for (auto [shard, begin, size] : {std::tuple(0, 0, 11), std::tuple(1, 11, 5)}) {
    WeightShard &part = *plan.weights[0]->shards[shard];
    setRanges(part, 0, {begin}, {size});
    part.shape = {size, 8};
  }
  for (uint32_t rank : {2, 3}) {
    plan.shard_files.push_back(copyOf(plan.shard_files[0]));
    plan.shard_files[rank]->rank = rank;
    plan.shard_files[rank]->name = shardFileName(rank);
  }
  auto &actions = plan.schedules[0]->ranks;
  actions.insert(actions.begin() + 1, copyOf(actions[0]));
  actions.push_back(copyOf(actions[2]));
  for (uint32_t rank = 0; rank < 4; ++rank)
    actions[rank]->rank = rank;
  for (const auto &program : plan.programs)
    if (program->stage == 0)
      instruction(*program, 0, 1).kind = InstructionKind::Collective;
  plan.groups = groupsOf(*plan.mesh);
  plan.capture_points[0]->slots.push_back(copyOf(plan.capture_points[0]->slots[0]));
  plan.capture_points[0]->slots[1]->tp_rank = 1;
}

TEST(ValidPlans, MaySplitTensors) {
  auto plan = makeTwoStagePlan();
  splitTensors(*plan);
  EXPECT_EQ(messageOf(validate(*plan)), "");
}

/// Gives the captured value's dimension `dim` these ranges on the first tp rank.
static void captureRanges(Plan &plan, uint32_t dim, std::vector<int64_t> offsets,
                          std::vector<int64_t> sizes) {
  auto ranges = std::make_unique<DimRanges>();
  ranges->dim = dim;
  ranges->offsets = std::move(offsets);
  ranges->sizes = std::move(sizes);
  plan.capture_points[0]->slots[0]->ranges.push_back(std::move(ranges));
}

static void captureType(Plan &plan, std::vector<int64_t> shape) {
  TensorType &type = *plan.capture_points[0]->type;
  type.dtype = DType::Float;
  type.ranked = true;
  for (int64_t size : shape)
    type.dims.push_back(std::make_unique<DimExpr>(constantDim(size)));
}

TEST(ValidPlans, MayCaptureParts) {
  auto plan = makeTwoStagePlan();
  splitTensors(*plan);
  captureType(*plan, {3, 16});
  auto &slots = plan->capture_points[0]->slots;
  captureRanges(*plan, 1, {11}, {5});
  slots[1]->ranges.swap(slots[0]->ranges);
  captureRanges(*plan, 1, {0}, {11});
  EXPECT_EQ(messageOf(validate(*plan)), "");
  slots[1]->ranges.clear();
  EXPECT_NE(messageOf(validate(*plan)).find("its ranks split several dimensions"), std::string::npos);
}

static const Mutation kTables[] = {
    MUTATION("NoMesh", "mesh: it is missing", plan.mesh.reset()),
    MUTATION("EmptyAxis", "mesh: an axis has the size 0", plan.mesh->tp = 0),
    MUTATION("HugeMesh", "mesh: more than 65536 ranks", plan.mesh->dp = plan.mesh->tp = 65536),
    MUTATION("NoStages", "stages: there are none", plan.stages.clear()),
    MUTATION("NullStage", "stages: there are none, or one is missing", plan.stages[1].reset()),
    MUTATION("StageIndex", "stages: entry 1 has the index 7", plan.stages[1]->index = 7),
    MUTATION("StageRank", "stage 1: its first rank 2 is none of the mesh", plan.stages[1]->ranks = {2}),
    MUTATION("StageWithoutRank", "stage 1: on 0 ranks", plan.stages[1]->ranks.clear()),
    MUTATION("IdleRank", "stages: they use 1 of pp=2 places", plan.stages[1]->ranks = {0}),
    MUTATION("NoFingerprint", "fingerprint: it is missing", plan.fingerprint.reset()),
    MUTATION("EscapeSequence", "producer: its text holds control characters", plan.producer = "\033[2J"),
    MUTATION("NoUtf8", "module paths: its text is no UTF-8", plan.paths[1] = "\xff\xfe"),
    MUTATION("NoOperator", "operators: an entry is no operator name", plan.operators[0] = "linear"),
    MUTATION("NullNote", "notes: an entry is missing", plan.notes[0].reset()),
    MUTATION("StateWithoutType", "state 's': its type is missing",
             plan.states.push_back(std::make_unique<State>());
             plan.states[0]->name = "s"),
    MUTATION("StateTwice", "states: there are two 's'", addState(plan, 0); addState(plan, 0)),
    MUTATION("StateStage", "state 's': of stage 2, which is not there", addState(plan, 2)),
    MUTATION("StateOfParts", "schedules: a request comes in parts, between which state 's' would pass",
             addState(plan, 0);
             instruction(first(plan), 0, 1).kind = InstructionKind::StateRead;
             instruction(first(plan), 0, 1).op = 0),
    MUTATION("CaptureSlot", "capture point 'layer0': its program or slot",
             plan.capture_points[0]->slots[0]->slot = 6),
    MUTATION("CaptureStage", "capture point 'layer0': its program or slot",
             plan.capture_points[0]->stage = 2),
    MUTATION("CaptureSignature", "capture point 'layer0': its program or slot",
             plan.capture_points[0]->signature = 1),
    MUTATION("CaptureType", "capture point 'layer0': its type is missing",
             plan.capture_points[0]->type.reset()),
    MUTATION("CaptureTwice", "capture point 'layer0': there are two of call 0",
             plan.capture_points.push_back(copyOf(plan.capture_points[0]))),
    MUTATION("CaptureBeforeItIsMade", "capture point 'layer0': slot 4 holds nothing after 0 instructions",
             plan.capture_points[0]->slots[0]->after = 0),
    MUTATION("CaptureReleased", "capture point 'layer0': slot 4 holds nothing after 2 instructions",
             plan.capture_points[0]->slots[0]->after = 2),
    MUTATION("CaptureBehindTheEnd", "capture point 'layer0': after 3 instructions, of a program of 2",
             plan.capture_points[0]->slots[0]->after = 3),
    MUTATION("CaptureOfABranch", "capture point 'layer0': slot 4 holds nothing after 1 instructions",
             plan.capture_points[0]->stage = 1),
    MUTATION("CaptureWritesAWeight", "capture point 'layer0': slot 1 can be written",
             plan.capture_points[0]->slots[0]->slot = 1;
             plan.capture_points[0]->writable = true),
    MUTATION("CaptureWritesAnInput", "capture point 'layer0': slot 0 can be written",
             plan.capture_points[0]->slots[0]->slot = 0;
             plan.capture_points[0]->slots[0]->after = 0; plan.capture_points[0]->writable = true),
    MUTATION("CaptureRangesOfNoDimension", "capture point 'layer0': the ranges of a dimension",
             captureRanges(plan, 0, {0}, {3})),
    MUTATION("CaptureOfPartOfADimension", "capture point 'layer0': index 6 of the dimension",
             captureType(plan, {8, 16});
             captureRanges(plan, 0, {0, 7}, {6, 1})),
    MUTATION("CaptureOutsideOfADimension", "capture point 'layer0': a range leaves the tensor",
             captureType(plan, {8, 16});
             captureRanges(plan, 0, {0}, {9})),
    MUTATION("CapturePartsOfSums", "capture point 'layer0': its ranks split several dimensions",
             captureType(plan, {8, 16});
             captureRanges(plan, 0, {0}, {8}); plan.capture_points[0]->partial = true),
};

static const Mutation kSignatures[] = {
    MUTATION("NoSignature", "signatures: there are none", plan.signatures.clear()),
    MUTATION("NamelessSignature", "signatures: it has no name", signature(plan).name.clear()),
    MUTATION("SignatureTwice", "signatures: there are two 'forward'",
             plan.signatures.push_back(std::make_unique<Signature>(signature(plan)))),
    MUTATION("NegativeClipNorm",
             "the norm to which its gradients are clipped is no finite number of 0 or more",
             signature(plan).clip_norm = -1),
    MUTATION("ClipNormNotANumber",
             "the norm to which its gradients are clipped is no finite number of 0 or more",
             signature(plan).clip_norm = std::nan("")),
    MUTATION("NegativeSymbol", "symbol 'batch' was traced with the size -1",
             signature(plan).symbols[0]->traced = -1),
    MUTATION("NoMultiple", "symbol 'batch' of size 3 is said to be a multiple of 2",
             signature(plan).symbols[0]->divisible_by = 2),
    MUTATION("LeastAboveTraced", "symbol 'batch' of size 3 is said to be from 4 to ",
             signature(plan).symbols[0]->min = 4),
    MUTATION("MostBelowTraced", "symbol 'batch' of size 3 is said to be from 1 to 2",
             signature(plan).symbols[0]->max = 2),
    MUTATION("LeastIsNoMultiple", "symbol 'batch' runs from 2, which is no multiple of 3",
             signature(plan).symbols[0]->divisible_by = 3, signature(plan).symbols[0]->min = 2),
    MUTATION("Uncountable", "symbol 'batch' was traced with the size 4611686018427387904",
             signature(plan).symbols[0]->traced = int64_t(1) << 62),
    MUTATION("MultipleOfZero", "symbol 'batch' of size 3 is said to be a multiple of 0",
             signature(plan).symbols[0]->divisible_by = 0),
    MUTATION("WitnessedAboveTraced", "symbol 'batch': of size 3 is said to have been compared from 4 to 8",
             signature(plan).symbols[0]->witnessed_min = 4, signature(plan).symbols[0]->witnessed_max = 8),
    MUTATION("WitnessedBelowTraced", "symbol 'batch': of size 3 is said to have been compared from 1 to 2",
             signature(plan).symbols[0]->witnessed_max = 2),
    MUTATION("WitnessedAtNoMultiple",
             "symbol 'batch': of size 3 is said to have been compared at multiples of 2",
             signature(plan).symbols[0]->witnessed_max = 8,
             signature(plan).symbols[0]->witnessed_divisible_by = 2),
    MUTATION("WitnessedAtMultiplesOfZero", "said to have been compared at multiples of 0",
             signature(plan).symbols[0]->witnessed_max = 8,
             signature(plan).symbols[0]->witnessed_divisible_by = 0),
    MUTATION("WitnessedWithoutEnd", "said to have been compared from 2 to 0",
             signature(plan).symbols[0]->witnessed_min = 2),
    MUTATION("UnboundSymbol", "symbol 'seq' is no dimension of any input",
             signature(plan).symbols.push_back(std::make_unique<Symbol>());
             signature(plan).symbols[1]->name = "seq"),
    MUTATION("NoSuchBatch", "its batch is symbol 1, there are 1", signature(plan).batch = 1),
    MUTATION("BatchOnNothing", "its batch is symbol -2", signature(plan).batch = -2),
    MUTATION("InputNotOfTheBatch", "input 'x': it is not in proportion to the batch",
             signature(plan).inputs[0]->type->dims[1]->terms[0]->symbols = {0, 0}),
    MUTATION("InputOfTheBatchTwice", "input 'x': it is not in proportion to the batch",
             signature(plan).inputs[0]->type->dims[1] = std::make_unique<DimExpr>(symbolDim(0))),
    MUTATION("OutputNotOfTheBatch", "output 'y': it is not known to be in proportion to the batch",
             signature(plan).outputs[0]->type->dims[0]->divisor = 2),
    MUTATION("NoInputType", "input 'x': its type is missing", signature(plan).inputs[0]->type.reset()),
    MUTATION("BadDType", "input 'x': its type is missing or of an unknown dtype",
             signature(plan).inputs[0]->type->dtype = static_cast<DType>(99)),
    MUTATION("UnknownDType", "input 'x': its rank or dtype is unknown",
             signature(plan).inputs[0]->type->dtype = DType::Unknown),
    MUTATION("NullDim", "input 'x': a size is missing", signature(plan).inputs[0]->type->dims[1].reset()),
    MUTATION("NullTerm", "input 'x': a size is missing",
             signature(plan).inputs[0]->type->dims[1]->terms[0].reset()),
    MUTATION("WrongSymbol", "of a symbol that is not there",
             signature(plan).inputs[0]->type->dims[0]->terms[0]->symbols[0] = 1),
    MUTATION("NegativeSize", "input 'x': a size is missing, negative",
             signature(plan).inputs[0]->type->dims[1]->terms[0]->coefficient = -8),
    MUTATION("Overflow", "input 'x': a size is negative, or its bytes are beyond int64",
             signature(plan).inputs[0]->type->dims[1] = makeHuge()),
    MUTATION("Strides", "1 strides for 2 dimensions",
             signature(plan).inputs[0]->type->strides.push_back(makeHuge())),
    MUTATION("Unranked", "dimensions although its rank is unknown",
             signature(plan).inputs[0]->type->ranked = false),
    MUTATION("OutputStage", "output 'y': comes from stage 2, there are 2",
             signature(plan).outputs[0]->stage = 2),
    MUTATION("OutputIndex", "output 'y': is result 1 of stage 1, which has fewer",
             signature(plan).outputs[0]->index = 1),
    MUTATION("NoTree", "outputs: the nesting is missing", signature(plan).output_tree.reset()),
    MUTATION("TreeKind", "of an unknown kind", signature(plan).input_tree->kind = static_cast<TreeKind>(50)),
    MUTATION("LeafTwice", "leaf 0 stands there twice",
             signature(plan).input_tree->children.push_back(std::make_unique<Tree>())),
    MUTATION("LeafAbsent", "leaf 0 does not stand in the nesting",
             signature(plan).input_tree->children.clear()),
    MUTATION("LeafRange", "or there are only 1", signature(plan).input_tree->children[0]->leaf = 1),
    MUTATION("NullChild", "the nesting is missing", signature(plan).input_tree->children[0].reset()),
    MUTATION("DictKeys", "a dict has 0 keys and 1 values", signature(plan).input_tree->kind = TreeKind::Dict),
    MUTATION("FixedWithout", "a constant is missing",
             signature(plan).input_tree->children[0]->kind = TreeKind::Fixed),
    MUTATION("DeepTree", "nested deeper than 24",
             signature(plan).input_tree = nest(1000, TreeKind::Tuple, &Tree::children)),
};

static const Mutation kWeights[] = {
    MUTATION("NullWeight", "weights: an entry is missing", plan.weights[0].reset()),
    MUTATION("WeightTwice", "weights: there are two 'layer0.weight'",
             plan.weights[1]->name = "layer0.weight"),
    MUTATION("AliasTwice", "weights: there are two 'layer0.bias'",
             plan.weights[2]->aliases = {"layer0.bias"}),
    MUTATION("WeightDType", "weight 'layer0.weight': its dtype is unknown",
             plan.weights[0]->dtype = DType::Unknown),
    MUTATION("WeightOverflow", "or its bytes are beyond int64",
             plan.weights[0]->shape = {1ll << 40, 1ll << 40}),
    MUTATION("ShardRank", "weight 'layer0.weight', rank 2: there are only 2 ranks", shard(plan).rank = 2),
    MUTATION("NullShard", "a shard is missing", plan.weights[0]->shards[0].reset()),
    MUTATION("ShardShape", "dimension 1 is 9, its ranges have 8", shard(plan).shape = {16, 9}),
    MUTATION("ShardNegative", "a size is negative", shard(plan).shape = {16, -8}),
    MUTATION("ShardRankCount", "it has other dimensions than the weight", shard(plan).shape = {16, 8, 1}),
    MUTATION("RangesDim", "of a dimension that is not there", setRanges(shard(plan), 2, {}, {})),
    MUTATION("RangesNull", "the ranges of a dimension are missing", shard(plan).ranges.resize(1)),
    MUTATION("RangesTwice", "or no later one", setRanges(shard(plan), 0, {0}, {16});
             shard(plan).ranges.push_back(std::make_unique<DimRanges>(*shard(plan).ranges[0]))),
    MUTATION("RangesSum", "dimension 0 is 16, its ranges have 4", setRanges(shard(plan), 0, {0}, {4})),
    MUTATION("RangesCount", "2 offsets of ranges and 1 sizes", setRanges(shard(plan), 0, {0, 4}, {4})),
    MUTATION("RangesEnd", "a range leaves the tensor",
             setRanges(shard(plan), 0, {1}, {std::numeric_limits<int64_t>::max()})),
    MUTATION("RangesOverlap", "overlaps the one before", setRanges(shard(plan), 0, {0, 4}, {8, 8})),
    MUTATION("TrainableBuffer", "it is trainable, but no parameter", plan.weights[0]->trainable = true;
             plan.weights[0]->role = WeightRole::Buffer),
    MUTATION("ShardKeyTwice", "another weight has the key 'layer0.weight', too",
             plan.weights[1]->shards[0]->key = "layer0.weight"),
    MUTATION("ShardTooLarge", "the shard file is too small for it", plan.shard_files[0]->bytes = 500),
    MUTATION("FileOutside", "'../secret' is no file name of a shard",
             plan.shard_files[0]->name = "../secret"),
    MUTATION("FileAbsolute", "is no file name of a shard", plan.shard_files[0]->name = "/etc/passwd"),
    MUTATION("FileParent", "'..' is no file name", plan.shard_files[0]->name = ".."),
    MUTATION("FileOfPlan", "'plan.fb' is no file name", plan.shard_files[0]->name = "plan.fb"),
    MUTATION("FileZero", "control characters", plan.shard_files[0]->name = std::string("a\0b", 3)),
    MUTATION("FileTwice", "is that of another rank's, too",
             plan.shard_files[1]->name = "rank-000.safetensors"),
    MUTATION("FileMissing", "1 files for 2 ranks", plan.shard_files.pop_back()),
    MUTATION("FileHash", "an entry or its checksum is missing", plan.shard_files[0]->hash.reset()),
};

static const Mutation kPrograms[] = {
    MUTATION("ProgramMissing", "programs: there are 1 for 2 combinations", plan.programs.pop_back()),
    MUTATION("ProgramTwice", "stage 0 has two", second(plan).stage = 0),
    MUTATION("ProgramSignature", "of a signature, stage, tp rank or phase that is not there",
             first(plan).signature = 1),
    MUTATION("Slots", "7 slots, of which 6 are written", first(plan).slots = 7),
    MUTATION("HugeSlots", "4294967295 slots, of which 6 are written", first(plan).slots = 0xffffffff),
    MUTATION("NullInstruction", "an instruction is missing", first(plan).blocks[0]->instructions[0].reset()),
    MUTATION("NullBlock", "an entry of a table is missing", first(plan).blocks[0].reset()),
    MUTATION("NoBlocks", "block 0 is missing", first(plan).blocks.clear()),
    MUTATION("BodyResults", "block 0 is missing, or has parameters or results",
             first(plan).blocks[0]->results = {5}),
    MUTATION("WrittenTwice", "slot 0 is written twice", instruction(first(plan), 0, 0).results = {0}),
    MUTATION("WriteRange", "writes slot 60, there are 6", instruction(first(plan), 0, 0).results = {60}),
    MUTATION("ReadRange", "block 0, instruction 1 (layer1): an operand is slot 60, there are 6",
             instruction(first(plan), 0, 1).operands = {60}),
    MUTATION("ReadEarly", "an operand is slot 5, which has not been written",
             instruction(first(plan), 0, 0).operands = {5}),
    MUTATION("ReadReleased", "an operand is slot 0, which has been released",
             instruction(first(plan), 0, 1).operands = {0}),
    MUTATION("ReleasedTwice", "a release is slot 0, which has been released",
             instruction(first(plan), 0, 1).releases = {0}),
    MUTATION("ReleasedWeight", "releases slot 1, which holds a constant, a size or a weight",
             instruction(first(plan), 0, 0).releases = {1}),
    MUTATION("ReleasedOuter", "releases slot 0, which an outer block has written",
             instruction(second(plan), 1, 0).releases = {0}),
    MUTATION("ReleasedOutput", "an output is slot 5, which has been released",
             instruction(first(plan), 0, 1).releases = {5}),
    MUTATION("SetupRange", "3 instructions set it up, of 2", first(plan).setup = 3),
    MUTATION("SetupReadsInput", "an operand is slot 0, which has not been written", first(plan).setup = 1),
    MUTATION("SetupReadsSize", "an operand is slot 3, which has not been written", setUp(plan);
             instruction(first(plan), 0, 0).operands = {3}),
    MUTATION("SetupReleased", "releases slot 4, which holds a constant, a size or a weight", setUp(plan);
             instruction(first(plan), 0, 1).releases = {4}),
    MUTATION("SetupRunsBlocks", "sets the program up, but is no call", second(plan).setup = 1),
    MUTATION("OutputRange", "an output is slot 9, there are 6", first(plan).outputs = {9}),
    MUTATION("OutputOfBranch", "an output is slot 4, which has been released or is of another block",
             second(plan).outputs = {4}),
    MUTATION("OtherBranch", "an operand is slot 4, which has been released or is of another block",
             instruction(second(plan), 2, 0).operands = {4}),
    MUTATION("OperatorRange", "calls an operator that is not in the table",
             instruction(first(plan), 0, 0).op = 2),
    MUTATION("PathRange", "its module path is not in the table", instruction(first(plan), 0, 0).path = 3),
    MUTATION("KindRange", "is of an unknown kind",
             instruction(first(plan), 0, 0).kind = static_cast<InstructionKind>(77)),
    MUTATION("UnpackMany", "unpacks one value",
             instruction(first(plan), 0, 0).kind = InstructionKind::Unpack),
    MUTATION("ListType", "its element type is no type",
             instruction(first(plan), 0, 0).kind = InstructionKind::List),
    MUTATION("DictPairs", "a dict has one result",
             instruction(first(plan), 0, 0).kind = InstructionKind::Dict),
    MUTATION("StateRange", "reads a state that is not there",
             instruction(first(plan), 0, 0).kind = InstructionKind::StateRead),
    MUTATION("StateElsewhere", "reads a state that is not there or not of its stage", addState(plan, 1);
             instruction(first(plan), 0, 0).kind = InstructionKind::StateRead;
             instruction(first(plan), 0, 0).op = 0; instruction(first(plan), 0, 0).operands = {0}),
    MUTATION("StateWriteResult", "takes 1 values and gives 1, which is not what its state needs",
             addState(plan, 0);
             instruction(first(plan), 0, 0).kind = InstructionKind::StateWrite;
             instruction(first(plan), 0, 0).op = 0; instruction(first(plan), 0, 0).operands = {0}),
    MUTATION("CallWithBlocks", "has blocks, but is no if, loop or vjp",
             instruction(first(plan), 0, 0).blocks = {0}),
    MUTATION("IfBlocks", "an if has one operand and two blocks",
             instruction(second(plan), 0, 0).blocks = {1}),
    MUTATION("BlockItself", "runs block 0, which is not there, not behind its own",
             instruction(second(plan), 0, 0).blocks = {0, 1}),
    MUTATION("BlockRange", "runs block 3, which is not there",
             instruction(second(plan), 0, 0).blocks = {1, 3}),
    MUTATION("BlockTwice", "or run elsewhere", instruction(second(plan), 0, 0).blocks = {1, 1}),
    MUTATION("BlockUnused", "block 3 is never run", second(plan).blocks.push_back(std::make_unique<Block>())),
    MUTATION("BranchResults", "block 1 takes 0 values and gives 0", second(plan).blocks[1]->results.clear()),
    MUTATION("BranchResultRange", "a result of a block is slot 9", second(plan).blocks[1]->results = {9}),
    MUTATION("LoopParams", "block 1 takes 0 values", makeLoop(plan); second(plan).blocks[1]->params.clear();
             second(plan).slots = 5),
    MUTATION("LoopCarried", "a loop has trip count", makeLoop(plan);
             instruction(second(plan), 0, 0).operands = {1, 2}),
    MUTATION("VjpBlocks", "a vjp has one block", makeVjp(plan); instruction(second(plan), 0, 0).blocks = {}),
    MUTATION("VjpOperands", "takes 1 values and gives 2, and its block takes 2 and gives 1", makeVjp(plan);
             instruction(second(plan), 0, 0).operands = {0}),
    MUTATION("VjpResults", "takes 3 values and gives 0, and its block takes 2 and gives 1", makeVjp(plan);
             instruction(second(plan), 0, 0).results = {}; instruction(second(plan), 0, 0).releases = {0};
             second(plan).outputs = {0}; instruction(second(plan), 0, 0).releases = {};
             second(plan).slots = 6),
    MUTATION("VjpWithoutValues", "and its block takes 2 and gives 0", makeVjp(plan);
             second(plan).blocks[1]->results = {}),
    MUTATION("VjpOfAWeight", "an operand is slot 1 of outside a vjp, and no constant or size", makeVjp(plan);
             instruction(second(plan), 1, 0).operands = {5, 1}),
    MUTATION("VjpOfAState", "uses a state, changes a weight or is a vjp in the block of a vjp", makeVjp(plan);
             instruction(second(plan), 1, 0).kind = InstructionKind::StateWrite),
    MUTATION("InputRange", "takes input 1 of the request, which has 1", first(plan).inputs[0]->index = 1),
    MUTATION("InputSource", "an input comes from an unknown source",
             first(plan).inputs[0]->source = static_cast<Source>(9)),
    MUTATION("InputFromItself", "takes a value from stage 1, which is no earlier one",
             second(plan).inputs[0]->stage = 1),
    MUTATION("InputResult", "takes result 1 of stage 0, which has 1", second(plan).inputs[0]->index = 1),
    MUTATION("WeightRange", "uses weight 3, there are 3", first(plan).weights[0]->weight = 3),
    MUTATION("WeightElsewhere", "uses weight 'layer1.weight', of which rank 0 has no shard",
             first(plan).weights[0]->weight = 2),
    MUTATION("SizeUnknown", "a size is missing", *first(plan).sizes[0]->value = unknownDim()),
    MUTATION("SizeNull", "a size is missing", first(plan).sizes[0]->value.reset()),
    MUTATION("SlotTypeRange", "slot 6 has two types, or is not there", first(plan).types[0]->slot = 6),
    MUTATION("SlotTypeNull", "slot 5: its type is missing", first(plan).types[0]->type.reset()),
    MUTATION("ConstantNull", "a constant is missing", second(plan).constants[0]->value.reset()),
    MUTATION("ConstantBool", "a truth value is neither 0 nor 1",
             second(plan).constants[0]->value->integer = 2),
    MUTATION("ConstantItems", "a constant that is no list has items",
             setConstant(plan, ConstantKind::Int, "", ConstantKind::Int)),
    MUTATION("ConstantElement", "an item of a list of int is of another type",
             setConstant(plan, ConstantKind::List, "int", ConstantKind::None)),
    MUTATION("ConstantListType", "its element type is no type",
             setConstant(plan, ConstantKind::List, "int;", ConstantKind::Int)),
    MUTATION("ConstantDeep", "a constant is nested deeper than 24",
             second(plan).constants[0]->value = nest(1000, ConstantKind::Tuple, &Constant::items)),
    MUTATION("ScheduleMissing", "schedules: a signature has none", plan.schedules.clear()),
    MUTATION("ScheduleTwice", "schedules: signature 0 has several",
             plan.schedules.push_back(copyOf(plan.schedules[0]))),
    MUTATION("TieOfNothing", "group 0: no bucket sums over this tie",
             plan.groups.push_back(std::make_unique<Group>());
             plan.groups[0]->kind = GroupKind::Tied; plan.groups[0]->ranks = {0, 1}),
    MUTATION("ScheduleSignature", "of a signature that is not there", plan.schedules[0]->signature = 1),
    MUTATION("ScheduleNullRank", "schedules: one is missing, incomplete",
             plan.schedules[0]->ranks[0].reset()),
    MUTATION("ScheduleNullAction", "an action is missing", plan.schedules[0]->ranks[0]->actions[0].reset()),
    MUTATION("Precision", "products are in the dtype 10, expected bfloat16 or none",
             plan.precision = DType::Double),
    MUTATION("ScheduleEmpty", "no micro-batches or no slices", plan.schedules[0]->microbatches = 0),
    MUTATION("ScheduleHuge", "expected 4294967295 for 4294967295 micro-batches",
             plan.schedules[0]->microbatches = plan.schedules[0]->slices = 0xffffffff),
};

static const Mutation kTensorRanks[] = {
    MUTATION("Programs", "programs: there are 3 for 4 combinations", splitTensors(plan);
             plan.programs.pop_back()),
    MUTATION("ProgramOfRank", "of a signature, stage, tp rank or phase that is not there", splitTensors(plan);
             plan.programs[3]->tp_rank = 2),
    MUTATION("StageRanks", "stage 0: on 1 ranks, the mesh has 2 a stage", splitTensors(plan);
             plan.stages[0]->ranks.pop_back()),
    MUTATION("StageRankOrder", "stage 0: rank 2 where 1 belongs", splitTensors(plan);
             plan.stages[0]->ranks = {0, 2}),
    MUTATION("StageOfTwoPlaces", "its first rank 1 is none of the mesh or begins no stage",
             splitTensors(plan);
             plan.stages[0]->ranks = {1, 2}),
    MUTATION("OtherInput", "tp rank 1 takes or gives other values than tp rank 0", splitTensors(plan);
             plan.programs[3]->inputs[0]->source = Source::Request),
    MUTATION("OtherOutputs", "tp rank 1 takes or gives other values than tp rank 0", splitTensors(plan);
             plan.programs[3]->outputs.push_back(3)),
    MUTATION("OtherExchange", "tp rank 1 calls other collectives than tp rank 0, or in another order",
             splitTensors(plan);
             instruction(*plan.programs[2], 0, 1).op = 2),
    MUTATION("NoExchange", "tp rank 1 calls other collectives than tp rank 0", splitTensors(plan);
             instruction(*plan.programs[2], 0, 1).op = 0;
             instruction(*plan.programs[2], 0, 1).kind = InstructionKind::Call),
    MUTATION("ExchangeInABranch", "exchanges values with other ranks in a nested block", splitTensors(plan);
             instruction(second(plan), 1, 0).op = 1;
             instruction(second(plan), 1, 0).kind = InstructionKind::Collective),
    MUTATION("ExchangeAtSetup", "sets the program up, but is no call", setUp(plan);
             instruction(first(plan), 0, 0).kind = InstructionKind::Collective),
    MUTATION("ExchangeAsCall", "calls an operator that exchanges values with other ranks", splitTensors(plan);
             instruction(first(plan), 0, 1).kind = InstructionKind::Call),
    MUTATION("CollectiveOfOperator", "is a collective of an operator that is not in the table",
             instruction(first(plan), 0, 0).kind = InstructionKind::Collective),
    MUTATION("CollectiveOfOneRank", "is a collective over a group of one rank",
             plan.operators[1] = "spmd::all_reduce";
             instruction(first(plan), 0, 1).kind = InstructionKind::Collective),
    MUTATION("CollectiveOverData", "is a collective over a group Data, expected in an update alone",
             splitTensors(plan);
             instruction(first(plan), 0, 1).group = GroupKind::Data),
    MUTATION("CollectiveOverTies", "over a group that is neither Tensor nor Data", splitTensors(plan);
             instruction(first(plan), 0, 1).group = GroupKind::Tied),
    MUTATION("GroupsMissing", "groups: there are 1, expected at least the mesh's 2", splitTensors(plan);
             plan.groups.pop_back()),
    MUTATION("GroupRanks", "group 1: it is not the group of the mesh", splitTensors(plan);
             plan.groups[1]->ranks = {1, 2}),
    MUTATION("GroupTooMany", "group 2: it is one more", splitTensors(plan);
             plan.groups.push_back(copyOf(plan.groups[0]))),
    MUTATION("ShardMissing", "uses weight 'layer0.bias', of which rank 1 has no shard", splitTensors(plan);
             plan.weights[1]->shards.pop_back()),
    MUTATION("ShardSize", "dimension 0 is 6, its ranges have 5", splitTensors(plan);
             plan.weights[0]->shards[1]->shape = {6, 8}),
    MUTATION("ShardNotSplit", "rank 1: dimension 0 is 5, its ranges have 16", splitTensors(plan);
             plan.weights[0]->shards[1]->ranges.clear()),
    MUTATION("ScheduleRanks", "actions for 3 ranks, the mesh has 4", splitTensors(plan);
             plan.schedules[0]->ranks.pop_back()),
    MUTATION("ScheduleOtherActions", "rank 3 does not act as rank 2, which has the same stages",
             splitTensors(plan);
             plan.schedules[0]->ranks[3]->actions.pop_back()),
};

/// Makes a training plan of the one at hand.
INSTANTIATE_TEST_SUITE_P(Tables, Validate, testing::ValuesIn(kTables), nameOf);
INSTANTIATE_TEST_SUITE_P(Signatures, Validate, testing::ValuesIn(kSignatures), nameOf);
INSTANTIATE_TEST_SUITE_P(Weights, Validate, testing::ValuesIn(kWeights), nameOf);
INSTANTIATE_TEST_SUITE_P(TensorRanks, Validate, testing::ValuesIn(kTensorRanks), nameOf);
INSTANTIATE_TEST_SUITE_P(Programs, Validate, testing::ValuesIn(kPrograms), nameOf);

} // namespace cleave::plan
