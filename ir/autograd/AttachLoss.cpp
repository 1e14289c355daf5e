//===- AttachLoss.cpp - A loss as a further result ------------------------===//
#include "ir/autograd/AttachLoss.h"
#include "ir/Cleave.h"
#include "ir/DTypeCode.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

namespace {
/// How a loss is called. Weights are None, the reduction is the mean, other arguments are options.
struct LossSignature {
  llvm::StringLiteral name, irName;
  /// After result and target.
  std::vector<llvm::StringLiteral> arguments;
  /// The target is indices of classes.
  bool hasClasses = false;
};
struct LossOption {
  double defaultValue;
  enum Kind { Bool, Int, Float } kind;
};
} // namespace

static const std::vector<LossSignature> &lossSignatures() {
  static const std::vector<LossSignature> all{
      {"cross_entropy",
       "aten.cross_entropy_loss",
       {"weight", "reduction", "ignore_index", "label_smoothing"},
       true},
      {"nll", "aten.nll_loss_nd", {"weight", "reduction", "ignore_index"}, true},
      {"mse", "aten.mse_loss", {"reduction"}},
      {"l1", "aten.l1_loss", {"reduction"}},
      {"smooth_l1", "aten.smooth_l1_loss", {"reduction", "beta"}},
      {"huber", "aten.huber_loss", {"reduction", "delta"}},
      {"kl_div", "aten.kl_div", {"reduction", "log_target"}},
      {"binary_cross_entropy", "aten.binary_cross_entropy", {"weight", "reduction"}},
      {"binary_cross_entropy_with_logits",
       "aten.binary_cross_entropy_with_logits",
       {"weight", "pos_weight", "reduction"}}};
  return all;
}

/// Defaults of torch.nn.functional. `shift` and `class_dim` are ours; class_dim 0: found by shape.
static const std::map<StringRef, LossOption> &lossOptions() {
  static const std::map<StringRef, LossOption> all{
      {"ignore_index", {-100, LossOption::Int}}, {"label_smoothing", {0, LossOption::Float}},
      {"beta", {1, LossOption::Float}},          {"delta", {1, LossOption::Float}},
      {"log_target", {0, LossOption::Bool}},     {"shift", {0, LossOption::Bool}},
      {"class_dim", {0, LossOption::Int}}};
  return all;
}

static const LossSignature *signatureOf(StringRef name) {
  auto signature =
      llvm::find_if(lossSignatures(), [&](const LossSignature &each) { return each.name == name; });
  return signature == lossSignatures().end() ? nullptr : &*signature;
}

static bool takes(const LossSignature &signature, StringRef option) {
  return llvm::is_contained(signature.arguments, option) ||
         ((option == "shift" || option == "class_dim") && signature.hasClasses);
}

//===- The text -----------------------------------------------------------===//

static std::optional<double> parseNumber(StringRef text, LossOption::Kind kind) {
  double number;
  if (kind == LossOption::Bool)
    return text == "true" ? std::optional(1.0) : text == "false" ? std::optional(0.0) : std::nullopt;
  if (text.getAsDouble(number) || !std::isfinite(number) ||
      (kind == LossOption::Int && (number != std::round(number) || std::abs(number) > 1e9)))
    return std::nullopt;
  return number;
}

llvm::Expected<LossCall> parseLoss(StringRef text) {
  auto fail = [&](const Twine &expected) {
    return llvm::createStringError("loss \"" + text + "\": " + expected);
  };
  auto [name, rest] = text.split('(');
  LossCall loss;
  loss.name = name.trim().str();
  const LossSignature *signature = signatureOf(loss.name);
  auto names = llvm::map_range(lossSignatures(), [](const LossSignature &each) { return each.name.str(); });
  if (!signature)
    return fail("found \"" + loss.name + "\", expected one of " + llvm::join(names, ", ") +
                ", as in cross_entropy(logits, labels)");
  SmallVector<StringRef> parts;
  rest = rest.rtrim();
  const bool isClosed = rest.consume_back(")");
  rest.split(parts, ',');
  if (!isClosed || parts.size() < 2 || parts[0].trim().empty() || parts[1].trim().empty() ||
      parts[0].contains('=') || parts[1].contains('='))
    return fail("expected a result and an input in brackets, as in " + loss.name + "(logits, labels)");
  loss.result = parts[0].trim().str();
  loss.target = parts[1].trim().str();
  for (StringRef part : ArrayRef(parts).drop_front(2)) {
    auto [option, value] = part.split('=');
    auto known = lossOptions().find(option.trim());
    if (known == lossOptions().end() || !takes(*signature, known->first))
      return fail("found the option \"" + option.trim() + "\", which " + loss.name + " does not have");
    auto number = parseNumber(value.trim(), known->second.kind);
    if (!number)
      return fail("option " + option.trim() + ": found \"" + value.trim() + "\", expected " +
                  (known->second.kind == LossOption::Bool  ? "true or false"
                   : known->second.kind == LossOption::Int ? "an integer"
                                                           : "a number"));
    if (!loss.options.try_emplace(known->first.str(), *number).second)
      return fail("option " + option.trim() + " is given twice");
  }
  return loss;
}

//===- The function -------------------------------------------------------===//

namespace {
class LossBuilder {
public:
  LossBuilder(func::FuncOp function, const LossCall &loss)
      : function(function), terminator(function.getBody().front().getTerminator()), loss(loss),
        signature(*signatureOf(loss.name)), b(terminator), location(terminator->getLoc()) {}

  LogicalResult build();

private:
  Value findResult();
  Value findTarget();
  Value constant(Type type, Attribute value) { return b.create<ConstantOp>(location, type, value); }
  Value integer(int64_t value) { return constant(b.getI64Type(), b.getI64IntegerAttr(value)); }
  Value integers(ArrayRef<int64_t> values) {
    return constant(ListType::get(b.getContext(), b.getI64Type()), b.getI64ArrayAttr(values));
  }
  Value call(StringRef name, ValueRange operands) {
    return OperatorOp::create(b, location, name, operands, UnknownTensorType::get(b.getContext()))
        ->getResult(0);
  }
  Value argument(StringRef name);
  double option(StringRef name) const {
    auto given = loss.options.find(name.str());
    return given == loss.options.end() ? lossOptions().at(name).defaultValue : given->second;
  }
  /// With `shift`, drops the last position of the result and the first of the target. Flattens to
  /// [N, classes] and [N], unless classes are dimension 1 or the target is a vector.
  LogicalResult shiftAndFlatten(Value &result, Value &target);
  /// Casts the target to the dtype that the loss takes.
  LogicalResult convert(Value &target, Type result, Type given);

  func::FuncOp function;
  Operation *terminator;
  const LossCall &loss;
  const LossSignature &signature;
  OpBuilder b;
  Location location;
};
} // namespace

static SmallVector<std::string> sizesOf(RankedTensorType type) {
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  if (layout && !layout.getDims().empty())
    return llvm::to_vector(layout.getDims());
  return llvm::map_to_vector(type.getShape(), [](int64_t size) { return std::to_string(size); });
}

Value LossBuilder::findResult() {
  std::vector<std::string> names;
  SmallVector<Value> exact, suffixed;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
    names.push_back(name ? name.str() : "result " + std::to_string(i));
    if (name && name.getValue() == loss.result)
      exact.push_back(terminator->getOperand(i));
    else if (name && name.getValue().ends_with("." + loss.result))
      suffixed.push_back(terminator->getOperand(i));
  }
  const SmallVector<Value> &found = exact.empty() ? suffixed : exact;
  if (found.size() == 1)
    return found[0];
  function.emitError() << "the loss: found " << (found.empty() ? "no" : "several") << " results '"
                       << loss.result << "', expected one of " << llvm::join(names, ", ");
  return {};
}

Value LossBuilder::findTarget() {
  std::vector<std::string> names;
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == loss.target)
      return argument;
    names.push_back(name ? name.str() : "argument " + std::to_string(argument.getArgNumber()));
  }
  function.emitError() << "the loss: found no input '" << loss.target << "', expected one of "
                       << llvm::join(names, ", ") << "; trace a model that takes it";
  return {};
}

Value LossBuilder::argument(StringRef name) {
  if (name == "weight" || name == "pos_weight")
    return constant(b.getNoneType(), b.getUnitAttr());
  if (name == "reduction")
    return integer(1);
  switch (lossOptions().at(name).kind) {
  case LossOption::Bool:
    return constant(b.getI1Type(), b.getBoolAttr(option(name) != 0));
  case LossOption::Int:
    return integer(int64_t(option(name)));
  case LossOption::Float:
    return constant(b.getF64Type(), b.getF64FloatAttr(option(name)));
  }
  llvm_unreachable("all kinds are handled");
}

LogicalResult LossBuilder::shiftAndFlatten(Value &result, Value &target) {
  auto resultType = cast<RankedTensorType>(result.getType()),
       targetType = cast<RankedTensorType>(target.getType());
  const SmallVector<std::string> sizes = sizesOf(resultType), given = sizesOf(targetType);
  SmallVector<std::string> withoutLast(sizes), withoutSecond(sizes);
  if (!sizes.empty())
    withoutLast.pop_back();
  if (sizes.size() > 1)
    withoutSecond.erase(withoutSecond.begin() + 1);
  const bool isShifted = option("shift") != 0;
  const int64_t classDim = option("class_dim");
  if (classDim != 0 && classDim != 1 && classDim != -1)
    return function.emitError() << "the loss: found class_dim " << classDim << ", expected 1 or -1";
  const bool mayBeLast = given == withoutLast && classDim != 1,
             mayBeSecond = given == withoutSecond && classDim != -1 && !isShifted;
  if (mayBeLast && mayBeSecond && sizes.size() > 2)
    return function.emitError() << "the loss: classes may be the last dimension of " << resultType
                                << ", or dimension 1, expected class_dim=-1 or class_dim=1";
  if (mayBeLast && (!isShifted || sizes.size() > 1)) {
    if (ShapedType::isDynamic(resultType.getShape().back()))
      return function.emitError() << "the loss: the number of classes is dynamic";
    const int64_t classes = resultType.getShape().back(), last = int64_t(given.size()) - 1;
    if (isShifted) {
      const int64_t end = std::numeric_limits<int64_t>::max();
      result = call("aten.slice.Tensor", {result, integer(last), integer(0), integer(-1), integer(1)});
      target = call("aten.slice.Tensor", {target, integer(last), integer(1), integer(end), integer(1)});
    }
    if (given.size() != 1) {
      result = call("aten.reshape", {result, integers({-1, classes})});
      target = call("aten.reshape", {target, integers({-1})});
    }
    return success();
  }
  if (mayBeSecond)
    return success();
  return function.emitError() << "the loss: found labels " << targetType << " for a result " << resultType
                              << ", expected the result's shape without its classes"
                              << (isShifted ? ", which are last" : ", which are last or in dimension 1");
}

LogicalResult LossBuilder::convert(Value &target, Type result, Type given) {
  const Type wanted = signature.hasClasses ? b.getI64Type() : result;
  if (signature.hasClasses && (!isa<IntegerType>(given) || given.isInteger(1)))
    return function.emitError() << "the loss: found '" << loss.target << "' of " << given
                                << ", expected integers, which are indices of classes";
  if (given == wanted)
    return success();
  Value no = constant(b.getI1Type(), b.getBoolAttr(false));
  target = call("aten.to.dtype", {target, integer(*dtypeCodeOf(wanted)), no, no, argument("weight")});
  return success();
}

LogicalResult LossBuilder::build() {
  Value result = findResult(), target = result ? findTarget() : Value();
  if (!target)
    return failure();
  auto resultType = dyn_cast<RankedTensorType>(result.getType()),
       targetType = dyn_cast<RankedTensorType>(target.getType());
  if (!resultType || !targetType)
    return function.emitError() << "the loss: the type of '" << (resultType ? loss.target : loss.result)
                                << "' is not known";
  if (signature.hasClasses ? failed(shiftAndFlatten(result, target))
                           : sizesOf(resultType) != sizesOf(targetType))
    return signature.hasClasses ? failure()
                                : LogicalResult(function.emitError()
                                                << "the loss: found '" << loss.target << "' of type "
                                                << targetType << ", expected the shape of " << resultType);
  if (failed(convert(target, resultType.getElementType(), targetType.getElementType())))
    return failure();
  SmallVector<Value> operands{result, target};
  for (StringRef name : signature.arguments)
    operands.push_back(argument(name));
  Value value = call(signature.irName, operands);
  const unsigned index = terminator->getNumOperands();
  terminator->insertOperands(index, value);
  function.insertResult(index, value.getType(),
                        b.getDictionaryAttr(b.getNamedAttr(kNameAttr, b.getStringAttr("loss"))));
  if (Attribute outputs = function->getAttr(kOutputTreeAttr))
    function->setAttr(kOutputTreeAttr, nodeTree(b, "dict",
                                                {b.getStringAttr("outputs"), outputs, b.getStringAttr("loss"),
                                                 leafTree(b, index)}));
  return success();
}

LogicalResult attachLoss(func::FuncOp function, const LossCall &loss) {
  return LossBuilder(function, loss).build();
}

} // namespace cleave
