//===- AddOptimizer.cpp - A training step of a loss and gradients ---------===//
#include "ir/autograd/AddOptimizer.h"
#include "ir/DTypeCode.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "ir/autograd/Differentiate.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/autograd/StepInputs.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <limits>
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

/// Names of the sums of loss and normalizer. Update programs read only states, so both reach them as sums.
static constexpr llvm::StringLiteral kLossSum = "loss", kNormalizerSum = "loss_normalizer";

namespace {
class TrainingStepBuilder {
public:
  TrainingStepBuilder(func::FuncOp function, const OptimizerOptions &options)
      : function(function), options(options), terminator(function.getBody().front().getTerminator()),
        b(terminator), location(terminator->getLoc()) {}

  LogicalResult build();

private:
  LogicalResult findResults();
  Value constant(Type type, Attribute value) { return b.create<ConstantOp>(location, type, value); }
  Value real(double value) { return constant(b.getF64Type(), b.getF64FloatAttr(value)); }
  Value none() { return constant(b.getNoneType(), b.getUnitAttr()); }
  /// An operation of the update.
  template <typename Op, typename... Arguments> Op create(Location where, Arguments &&...arguments) {
    auto op = b.create<Op>(where, std::forward<Arguments>(arguments)...);
    op->setAttr(PhaseAttr::name, PhaseAttr::get(b.getContext(), Phase::Update));
    return op;
  }
  Value call(StringRef name, ValueRange operands) {
    Operation *op = OperatorOp::create(b, location, name, operands, UnknownTensorType::get(b.getContext()));
    op->setAttr(PhaseAttr::name, PhaseAttr::get(b.getContext(), Phase::Update));
    return op->getResult(0);
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
  /// `name`, with `train.` in front if the model has a state of this name.
  std::string stateName(StringRef name);
  /// True unless an option exempts it by one of its names.
  bool usesWeightDecay(ParamOp weight) const;
  void accumulate();
  /// A state to which the program of each micro-batch adds `term`.
  void accumulate(StringRef state, Value term);
  /// Divides by the sum of the normalizers.
  Value averaged(Value sum) { return normalizer ? call("aten.div.Tensor", {sum, normalizer}) : sum; }
  Value globalNorm();
  void update(ParamOp weight, Value gradient, Value gradScale, Value foundInf);
  void setResults(Value gradientNorm);

  func::FuncOp function;
  const OptimizerOptions &options;
  Operation *terminator;
  OpBuilder b;
  Location location;
  Value loss, rate, step;
  /// That of the micro-batch; then, in the update, the sum of all. Null where there is none.
  Value normalizer;
  /// By weight: its gradient; then, in the update, the sum of it.
  llvm::MapVector<ParamOp, Value> gradients;
};
} // namespace

bool TrainingStepBuilder::usesWeightDecay(ParamOp weight) const {
  auto isExempt = [&](Attribute name) { return !options.usesWeightDecay(cast<StringAttr>(name).getValue()); };
  return options.usesWeightDecay(weight.getName()) &&
         !(weight.getAliases() && llvm::any_of(*weight.getAliases(), isExempt));
}

LogicalResult TrainingStepBuilder::findResults() {
  llvm::StringMap<ParamOp> params;
  for (ParamOp param : function.getOps<ParamOp>())
    params.try_emplace(param.getName(), param);
  for (OpOperand &result : terminator->getOpOperands()) {
    if (function.getResultAttr(result.getOperandNumber(), kLossAttr))
      loss = result.get();
    if (function.getResultAttr(result.getOperandNumber(), kLossNormalizerAttr))
      normalizer = result.get();
    auto attribute = function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), kNameAttr);
    StringRef name = attribute ? attribute.getValue() : "";
    if (auto param = name.consume_front(gradientName("")) ? params.lookup(name) : ParamOp())
      gradients[param] = result.get();
  }
  if (!loss)
    return function.emitError() << "found no loss among the results, expected a function with gradients; run "
                                << "differentiate first";
  if (gradients.empty())
    return function.emitError() << "found no gradient of a weight";
  for (auto &[weight, gradient] : gradients)
    if (isa<ComplexType>(cast<RankedTensorType>(gradient.getType()).getElementType()))
      return weight.emitError()
             << "weight '" << weight.getName()
             << "' is complex, which optimizers do not support; exclude it with --trainable";
  return success();
}

std::string TrainingStepBuilder::stateName(StringRef name) {
  std::string unique = name.str();
  while (llvm::any_of(function.getOps<ReadStateOp>(),
                      [&](ReadStateOp state) { return state.getName() == unique; }))
    unique = "train." + unique;
  return unique;
}

/// Splits the gradient of a weight with several uses into its summands, in the order of the sum.
static SmallVector<Value> summandsOf(Value gradient) {
  SmallVector<Value> summands;
  for (;;) {
    auto sum = gradient.getDefiningOp<OperatorOp>();
    const Value scale = sum ? sum.getArgument(semanticsOf(sum.getName()).addScale) : Value();
    llvm::APInt factor;
    const bool isSum = scale && gradient.hasOneUse() && matchPattern(scale, m_ConstantInt(&factor)) &&
                       factor == 1 && sum->getOperand(0).getType() == gradient.getType() &&
                       sum->getOperand(1).getType() == gradient.getType();
    summands.push_back(isSum ? sum->getOperand(1) : gradient);
    if (!isSum)
      break;
    gradient = sum->getOperand(0);
  }
  std::reverse(summands.begin(), summands.end());
  return summands;
}

/// Each term of a gradient is added where it is made, in place; the sum is read in the update.
void TrainingStepBuilder::accumulate() {
  for (auto &[weight, gradient] : gradients) {
    OpBuilder::InsertionGuard guard(b);
    for (Value term : summandsOf(gradient)) {
      if (Operation *maker = term.getDefiningOp())
        b.setInsertionPointAfter(maker);
      b.create<AccumulateOp>(weight.getLoc(), stateName(gradientName(weight.getName())), term,
                             weight.getShardAttr());
    }
  }
  for (auto &[weight, gradient] : gradients)
    gradient = create<ReadSumOp>(weight.getLoc(), gradient.getType(),
                                 stateName(gradientName(weight.getName())), weight.getShardAttr());
  accumulate(kLossSum, loss);
  if (normalizer) {
    accumulate(kNormalizerSum, normalizer);
    normalizer = create<ReadSumOp>(location, normalizer.getType(), stateName(kNormalizerSum), ShardingAttr());
  }
}

void TrainingStepBuilder::accumulate(StringRef state, Value term) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(term);
  b.create<AccumulateOp>(location, stateName(state), term, ShardingAttr());
}

Value TrainingStepBuilder::normOfNorms(ArrayRef<Value> norms) {
  auto list =
      create<ListOp>(location, ListType::get(b.getContext(), UnknownTensorType::get(b.getContext())), norms);
  return norm(call("aten.stack", {list, constant(b.getI64Type(), b.getI64IntegerAttr(0))}),
              /*accumulateInFloat64=*/false);
}

/// torch.nn.utils.clip_grad_norm_ takes the norm of norms, too. Of sharded gradients each tensor-parallel
/// rank has a part: ‖g‖² = Σ ‖part‖², in float64, since the squares may be large.
Value TrainingStepBuilder::globalNorm() {
  SmallVector<Value> whole, parts;
  for (auto &[weight, gradient] : gradients)
    (weight.getShard() ? parts : whole)
        .push_back(norm(gradient, cast<RankedTensorType>(gradient.getType()).getElementType().isF64()));
  if (parts.empty())
    return averaged(normOfNorms(whole));
  auto squared = [&](Value norm) {
    const Value wide = converted(norm, b.getF64Type());
    return call("aten.mul.Tensor", {wide, wide});
  };
  Value sum = call("spmd.all_reduce", squared(normOfNorms(parts)));
  if (!whole.empty())
    sum = call("aten.add.Tensor",
               {sum, squared(normOfNorms(whole)), constant(b.getI64Type(), b.getI64IntegerAttr(1))});
  return averaged(converted(call("aten.sqrt", sum), b.getF32Type()));
}

void TrainingStepBuilder::update(ParamOp weight, Value gradient, Value gradScale, Value foundInf) {
  SmallVector<StringRef> stateNames = optimizerStates(options.optimizer, options.momentum);
  SmallVector<Attribute> states;
  for (StringRef state : stateNames)
    states.push_back(b.getStringAttr(stateName((weight.getName() + "." + state).str())));
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

void TrainingStepBuilder::setResults(Value gradientNorm) {
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
  if (failed(findResults()))
    return failure();
  const auto number = RankedTensorType::get({}, b.getF32Type());
  rate = addStepInput(function, kLearningRateRole, number);
  step = addStepInput(function, kStepRole, number);
  accumulate();
  const Value gradientNorm = globalNorm();
  const Value lossSum =
      averaged(create<ReadSumOp>(location, loss.getType(), stateName(kLossSum), ShardingAttr()));
  if (function->hasAttr(kSplitBatchAttr))
    loss = lossSum;
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
  for (auto &[weight, gradient] : gradients)
    update(weight, gradient, gradScale, foundInf);
  setResults(gradientNorm);
  return success();
}

LogicalResult addOptimizer(func::FuncOp function, const OptimizerOptions &options) {
  return TrainingStepBuilder(function, options).build();
}

} // namespace cleave
