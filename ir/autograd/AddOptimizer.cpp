//===- AddOptimizer.cpp - A training step of a loss and gradients ---------===//
#include "ir/autograd/AddOptimizer.h"
#include "ir/DTypeCode.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "ir/autograd/AccumulateGradients.h"
#include "ir/autograd/Differentiate.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/autograd/StepInputs.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <limits>
#include <numeric>
#include <set>

using namespace mlir;

namespace cleave {

//===- Options ------------------------------------------------------------===//

namespace {
/// An option of an optimizer: a number in [min, end).
struct NumberOption {
  llvm::StringLiteral name;
  double OptimizerOptions::*field;
  double min, end;
  bool isOfSgd, isOfAdam;
};
} // namespace

static constexpr double kNoEnd = std::numeric_limits<double>::infinity();
static const NumberOption kNumberOptions[] = {
    {"weight_decay", &OptimizerOptions::weightDecay, 0, kNoEnd, true, true},
    {"momentum", &OptimizerOptions::momentum, 0, kNoEnd, true, false},
    {"beta1", &OptimizerOptions::beta1, 0, 1, false, true},
    {"beta2", &OptimizerOptions::beta2, 0, 1, false, true},
    {"eps", &OptimizerOptions::epsilon, 0, kNoEnd, false, true}};

/// Sets one option. Returns an error message; empty on success.
static std::string setOption(OptimizerOptions &options, StringRef name, StringRef value) {
  const bool isSgd = options.optimizer == Optimizer::Sgd;
  if (isSgd && name == "nesterov") {
    options.nesterov = value == "true";
    return value == "true" || value == "false"
               ? ""
               : "option nesterov: found \"" + value.str() + "\", expected true or false";
  }
  for (const NumberOption &option : kNumberOptions) {
    if (option.name != name || !(isSgd ? option.isOfSgd : option.isOfAdam))
      continue;
    double number;
    if (value.getAsDouble(number) || !(number >= option.min && number < option.end))
      return llvm::formatv("option {0}: found \"{1}\", expected a number {2}", name, value,
                           option.end == 1 ? "from 0 to below 1" : "that is not negative");
    options.*option.field = number;
    return "";
  }
  return llvm::formatv("found the option \"{0}\", which {1} does not have", name,
                       stringifyOptimizer(options.optimizer));
}

llvm::Expected<OptimizerOptions> parseOptimizer(StringRef text) {
  auto fail = [&](const Twine &what) { return llvm::createStringError("optimizer " + text + ": " + what); };
  auto [name, rest] = text.split('(');
  const auto kind = symbolizeOptimizer(name.trim());
  if (!kind)
    return fail("expected sgd, adam or adamw, as in sgd(momentum=0.9)");
  OptimizerOptions options;
  options.optimizer = *kind;
  options.weightDecay = *kind == Optimizer::AdamW ? 0.01 : 0;
  if (name.size() == text.size())
    return options;
  rest = rest.rtrim();
  if (!rest.consume_back(")"))
    return fail("expected options in parentheses, as in sgd(momentum=0.9)");
  std::set<std::string> given;
  for (StringRef part : llvm::split(rest, ',')) {
    auto [option, value] = part.split('=');
    if (part.trim().empty() && rest.trim().empty())
      break;
    if (std::string problem = setOption(options, option.trim(), value.trim()); !problem.empty())
      return fail(problem);
    if (!given.insert(option.trim().str()).second)
      return fail("option " + option.trim() + " is given twice");
  }
  if (options.nesterov && options.momentum == 0)
    return fail("nesterov requires a momentum");
  return options;
}

//===- The function -------------------------------------------------------===//

/// Name of the sum of the squared norms of all gradients, to which each stage adds those of its own.
static constexpr llvm::StringLiteral kSquaresSum = "grad_norm_squares";

namespace {
/// A weight, its gradient, and the stages that update it.
struct TrainedWeight {
  ParamOp weight;
  Type gradient;
  /// Ascending; the first counts its gradient in the norm. Of a function without stages: stage 0.
  SmallVector<int64_t, 1> stages;
};

class TrainingStepBuilder {
public:
  TrainingStepBuilder(func::FuncOp function, const OptimizerOptions &options)
      : function(function), options(options), terminator(function.getBody().front().getTerminator()),
        b(terminator), location(terminator->getLoc()) {}

  LogicalResult build();

private:
  LogicalResult findSums();
  /// Stages of the operations that use a value, one for each pipeline rank.
  SmallVector<int64_t, 1> stagesThatUse(Value value);
  Value constant(Type type, Attribute value) { return b.create<ConstantOp>(location, type, value); }
  Value real(double value) { return constant(b.getF64Type(), b.getF64FloatAttr(value)); }
  Value none() { return constant(b.getNoneType(), b.getUnitAttr()); }
  /// An operation of the current stage and phase.
  template <typename Op, typename... Arguments> Op create(Location where, Arguments &&...arguments) {
    auto op = b.create<Op>(where, std::forward<Arguments>(arguments)...);
    setStageAndPhase(op);
    return op;
  }
  void setStageAndPhase(Operation *op) {
    op->setAttr(PhaseAttr::name, PhaseAttr::get(b.getContext(), phase));
    if (hasStages)
      op->setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage));
  }
  Value call(StringRef name, ValueRange operands) {
    Operation *op = OperatorOp::create(b, location, name, operands, UnknownTensorType::get(b.getContext()));
    setStageAndPhase(op);
    return op->getResult(0);
  }
  Value readSum(Location where, StringRef name, Type type, ShardingAttr shard = {}) {
    return create<ReadSumOp>(where, type, trainingStateName(function, name), shard);
  }
  Value gradientOf(const TrainedWeight &trained) {
    ParamOp weight = trained.weight;
    return readSum(weight.getLoc(), gradientName(weight.getName()), trained.gradient, weight.getShardAttr());
  }
  Value codeOf(Type type) { return constant(b.getI64Type(), b.getI64IntegerAttr(*dtypeCodeOf(type))); }
  Value converted(Value tensor, Type type) {
    const Value no = constant(b.getI1Type(), b.getBoolAttr(false));
    return call("aten.to.dtype", {tensor, codeOf(type), no, no, none()});
  }
  /// In float32.
  Value norm(Value tensor, bool accumulateInFloat64) {
    const Value result = call("aten.linalg_vector_norm",
                              {tensor, real(2), none(), constant(b.getI1Type(), b.getBoolAttr(false)),
                               accumulateInFloat64 ? none() : codeOf(b.getF32Type())});
    return accumulateInFloat64 ? converted(result, b.getF32Type()) : result;
  }
  Value normOfNorms(ArrayRef<Value> norms);
  /// The square of a norm, in float64.
  Value squared(Value norm) {
    const Value wide = converted(norm, b.getF64Type());
    return call("aten.mul.Tensor", {wide, wide});
  }
  /// True unless an option exempts it by one of its names.
  bool usesWeightDecay(ParamOp weight) const;
  /// The gradients that are counted in the current stage.
  SmallVector<std::pair<TrainedWeight *, Value>> gradientsOfStage();
  /// What a rank's shard of the weight's gradient counts in the norm: of indices that several ranks have, as
  /// the keys of a head that they share, those of the first.
  Value countedOnce(ParamOp weight, Value gradient);
  /// Norms of gradients that the tensor-parallel ranks have replicated, and of their shards of the others.
  struct Norms {
    SmallVector<Value> replicated, sharded;
  };
  Norms normsOf(ArrayRef<std::pair<TrainedWeight *, Value>> gradients);
  /// Their squares, summed over tensor-parallel ranks.
  Value squaresOf(const Norms &norms);
  /// The norm of the gradients of all stages, not divided by the normalizer.
  Value globalNorm(ArrayRef<std::pair<TrainedWeight *, Value>> gradients);
  void addNorm();
  void addUpdate();
  void update(TrainedWeight &trained, Value gradient, Value gradScale, Value foundInf);
  void setResults(Value loss, Value gradientNorm);

  func::FuncOp function;
  const OptimizerOptions &options;
  Operation *terminator;
  OpBuilder b;
  Location location;
  Type lossType, normalizerType;
  Value rate, step;
  bool hasStages = false;
  /// Where operations are added.
  int64_t stage = 0;
  Phase phase = Phase::Update;
  int64_t lossStage = 0;
  /// Those with updates: of weights, or of the loss alone.
  std::set<int64_t> stages;
  std::vector<TrainedWeight> weights;
};
} // namespace

bool TrainingStepBuilder::usesWeightDecay(ParamOp weight) const {
  auto isExempt = [&](Attribute name) { return !options.usesWeightDecay(cast<StringAttr>(name).getValue()); };
  return options.usesWeightDecay(weight.getName()) &&
         !(weight.getAliases() && llvm::any_of(*weight.getAliases(), isExempt));
}

SmallVector<int64_t, 1> TrainingStepBuilder::stagesThatUse(Value value) {
  std::set<int64_t> found;
  SmallVector<Operation *> pending(value.getUsers());
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    Operation *user = function.getBody().front().findAncestorOpInBlock(*pending.pop_back_val());
    if (!seen.insert(user).second)
      continue;
    if (auto own = stageIndexOf(user))
      found.insert(*own);
    else // Each stage has it for itself.
      pending.append(user->user_begin(), user->user_end());
  }
  SmallVector<int64_t, 1> kept;
  auto isOnSameRank = [&](int64_t a, int64_t b) { return options.ranks && (a - b) % options.ranks == 0; };
  for (int64_t own : found)
    if (llvm::none_of(kept, [&](int64_t other) { return isOnSameRank(own, other); }))
      kept.push_back(own);
  return kept.empty() ? SmallVector<int64_t, 1>{0} : kept;
}

LogicalResult TrainingStepBuilder::findSums() {
  llvm::StringMap<AccumulateOp> sums;
  for (AccumulateOp sum : function.getOps<AccumulateOp>())
    sums.try_emplace(sum.getName(), sum);
  AccumulateOp loss = sums.lookup(trainingStateName(function, kLossSum));
  if (!loss)
    return function.emitError() << "found no sum of a loss, expected a function with gradients; run "
                                << "differentiate and accumulate-gradients first";
  lossType = loss.getValue().getType();
  hasStages = stageIndexOf(loss).has_value();
  lossStage = stageIndexOf(loss).value_or(0);
  if (AccumulateOp normalizer = sums.lookup(trainingStateName(function, kNormalizerSum)))
    normalizerType = normalizer.getValue().getType();
  stages.insert(lossStage);
  for (ParamOp weight : function.getOps<ParamOp>())
    if (AccumulateOp sum = sums.lookup(trainingStateName(function, gradientName(weight.getName())))) {
      weights.push_back({weight, sum.getValue().getType(), stagesThatUse(weight)});
      stages.insert(weights.back().stages.begin(), weights.back().stages.end());
    }
  return success();
}

SmallVector<std::pair<TrainedWeight *, Value>> TrainingStepBuilder::gradientsOfStage() {
  SmallVector<std::pair<TrainedWeight *, Value>> found;
  for (TrainedWeight &trained : weights)
    if (phase == Phase::Norm ? trained.stages.front() == stage : llvm::is_contained(trained.stages, stage))
      found.push_back({&trained, gradientOf(trained)});
  return found;
}

Value TrainingStepBuilder::normOfNorms(ArrayRef<Value> norms) {
  auto list =
      create<ListOp>(location, ListType::get(b.getContext(), UnknownTensorType::get(b.getContext())), norms);
  return norm(call("aten.stack", {list, constant(b.getI64Type(), b.getI64IntegerAttr(0))}),
              /*accumulateInFloat64=*/false);
}

/// By rank, the ranges of its shard that no lower rank has, too, as pairs of start and length in the shard.
static SmallVector<SmallVector<int64_t>> uncountedRanges(ShardingAttr shard) {
  std::vector<bool> isHeld(shard.getSize());
  SmallVector<SmallVector<int64_t>> found;
  for (DenseI64ArrayAttr rank : shard.getRanks()) {
    SmallVector<int64_t> &own = found.emplace_back();
    int64_t offset = 0;
    for (size_t i = 0; i + 1 < size_t(rank.size()); i += 2)
      for (int64_t index = rank[i]; index < rank[i] + rank[i + 1]; ++index, ++offset) {
        if (isHeld[index])
          continue;
        isHeld[index] = true;
        if (!own.empty() && own[own.size() - 2] + own.back() == offset)
          ++own.back();
        else
          own.append({offset, 1});
      }
    if (own.empty())
      own = {0, 0};
  }
  return found;
}

Value TrainingStepBuilder::countedOnce(ParamOp weight, Value gradient) {
  ShardingAttr shard = weight.getShardAttr();
  const auto extents = shard.getExtents();
  if (std::accumulate(extents.begin(), extents.end(), int64_t(0)) == shard.getSize())
    return gradient;
  const Type ints = ListType::get(b.getContext(), b.getI64Type());
  SmallVector<Attribute> ranges;
  for (ArrayRef<int64_t> own : uncountedRanges(shard))
    ranges.push_back(b.getI64ArrayAttr(own));
  const Value ofRank = create<PerRankOp>(location, ints, b.getArrayAttr(ranges));
  return call("spmd.shard",
              {gradient, constant(b.getI64Type(), b.getI64IntegerAttr(shard.getDim())), ofRank});
}

TrainingStepBuilder::Norms
TrainingStepBuilder::normsOf(ArrayRef<std::pair<TrainedWeight *, Value>> gradients) {
  Norms norms;
  for (auto [trained, gradient] : gradients) {
    const bool isFloat64 = cast<RankedTensorType>(gradient.getType()).getElementType().isF64();
    if (trained->weight.getShard())
      norms.sharded.push_back(norm(countedOnce(trained->weight, gradient), isFloat64));
    else
      norms.replicated.push_back(norm(gradient, isFloat64));
  }
  return norms;
}

/// Of sharded gradients each tensor-parallel rank has a part: ‖g‖² = Σ ‖part‖², in float64, since the squares
/// may be large.
Value TrainingStepBuilder::squaresOf(const Norms &norms) {
  Value sum = norms.sharded.empty() ? Value() : call("spmd.all_reduce", squared(normOfNorms(norms.sharded)));
  if (norms.replicated.empty())
    return sum;
  const Value replicated = squared(normOfNorms(norms.replicated));
  return sum ? call("aten.add.Tensor", {sum, replicated, constant(b.getI64Type(), b.getI64IntegerAttr(1))})
             : replicated;
}

/// torch.nn.utils.clip_grad_norm_ takes the norm of norms, too.
Value TrainingStepBuilder::globalNorm(ArrayRef<std::pair<TrainedWeight *, Value>> gradients) {
  Value squares;
  if (stages.size() > 1) {
    squares = readSum(location, kSquaresSum, RankedTensorType::get({}, b.getF64Type()));
  } else {
    const Norms norms = normsOf(gradients);
    if (norms.sharded.empty())
      return normOfNorms(norms.replicated);
    squares = squaresOf(norms);
  }
  return converted(call("aten.sqrt", squares), b.getF32Type());
}

/// What the current stage adds to the norm.
void TrainingStepBuilder::addNorm() {
  phase = Phase::Norm;
  const auto gradients = gradientsOfStage();
  if (gradients.empty())
    return;
  Value squares = squaresOf(normsOf(gradients));
  squares.setType(RankedTensorType::get({}, b.getF64Type()));
  create<AccumulateOp>(location, trainingStateName(function, kSquaresSum), squares, ShardingAttr());
}

void TrainingStepBuilder::update(TrainedWeight &trained, Value gradient, Value gradScale, Value foundInf) {
  ParamOp weight = trained.weight;
  SmallVector<StringRef> stateNames = optimizerStates(options.optimizer, options.momentum);
  SmallVector<Attribute> states;
  // Each stage has states of its own.
  const std::string copy = stage == trained.stages.front() ? "" : "@" + std::to_string(stage);
  for (StringRef state : stateNames)
    states.push_back(
        b.getStringAttr(trainingStateName(function, (weight.getName() + "." + state + copy).str())));
  auto real = [&](double value) { return b.getF64FloatAttr(value); };
  const bool isSgd = options.optimizer == Optimizer::Sgd;
  create<UpdateWeightOp>(weight.getLoc(), weight, gradient, rate, step, gradScale, foundInf,
                         OptimizerAttr::get(b.getContext(), options.optimizer), b.getArrayAttr(states),
                         real(usesWeightDecay(weight) ? options.weightDecay : 0),
                         real(isSgd ? options.momentum : 0), real(isSgd ? 0 : options.beta1),
                         real(isSgd ? 0 : options.beta2), real(isSgd ? 0 : options.epsilon),
                         isSgd && options.nesterov ? b.getUnitAttr() : UnitAttr());
  weight->setAttr(kTrainedAttr, b.getUnitAttr());
}

/// Updates the weights of the current stage.
void TrainingStepBuilder::addUpdate() {
  phase = Phase::Update;
  const auto gradients = gradientsOfStage();
  const Value normalizer = normalizerType ? readSum(location, kNormalizerSum, normalizerType) : Value();
  auto averaged = [&](Value sum) { return normalizer ? call("aten.div.Tensor", {sum, normalizer}) : sum; };
  const Value gradientNorm = averaged(globalNorm(gradients));
  const Value lossSum = averaged(readSum(location, kLossSum, lossType));
  // What the kernels divide gradients by (grad_scale of torch._fused_adamw_).
  Value gradScale = normalizer ? normalizer : none();
  if (options.clipNorm) {
    const Value one = constant(b.getI64Type(), b.getI64IntegerAttr(1));
    const Value margin = call("aten.add.Scalar", {gradientNorm, real(1e-6), one});
    const Value clipDivisor =
        call("aten.clamp_min", {call("aten.div.Scalar", {margin, real(*options.clipNorm)}), real(1)});
    gradScale = normalizer ? call("aten.mul.Tensor", {clipDivisor, normalizer}) : clipDivisor;
  }
  const Value isFinite =
      call("aten.mul.Tensor", {call("aten.isfinite", {gradientNorm}), call("aten.isfinite", {lossSum})});
  const Value foundInf = converted(call("aten.logical_not", {isFinite}), b.getF32Type());
  for (auto [trained, gradient] : gradients)
    update(*trained, gradient, gradScale, foundInf);
  if (stage == lossStage)
    setResults(function->hasAttr(kSplitBatchAttr) ? lossSum : terminator->getOperand(0), gradientNorm);
}

void TrainingStepBuilder::setResults(Value loss, Value gradientNorm) {
  const Value results[] = {loss, gradientNorm};
  const StringRef names[] = {"loss", "grad_norm"};
  SmallVector<Attribute> tree;
  function.eraseResults(llvm::BitVector(function.getNumResults(), true));
  terminator->setOperands(results);
  for (unsigned i = 0; i < 2; ++i) {
    function.insertResult(i, results[i].getType(),
                          b.getDictionaryAttr(b.getNamedAttr(kNameAttr, b.getStringAttr(names[i]))));
    if (i == 0)
      function.setResultAttr(i, kLossAttr, b.getUnitAttr());
    tree.push_back(b.getStringAttr(names[i]));
    tree.push_back(leafTree(b, i));
  }
  function->setAttr(kOutputTreeAttr, nodeTree(b, "dict", tree));
}

LogicalResult TrainingStepBuilder::build() {
  if (failed(findSums()))
    return failure();
  const auto number = RankedTensorType::get({}, b.getF32Type());
  rate = addStepInput(function, kLearningRateRole, number);
  step = addStepInput(function, kStepRole, number);
  for (int64_t own : stages) {
    stage = own;
    if (stages.size() > 1)
      addNorm();
  }
  for (int64_t own : stages) {
    stage = own;
    addUpdate();
  }
  if (options.clipNorm)
    function->setAttr(kClipNormAttr, b.getF64FloatAttr(*options.clipNorm));
  return success();
}

LogicalResult addOptimizer(func::FuncOp function, const OptimizerOptions &options) {
  return TrainingStepBuilder(function, options).build();
}

} // namespace cleave
