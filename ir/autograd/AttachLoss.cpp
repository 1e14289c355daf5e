//===- AttachLoss.cpp - A loss as a further result ------------------------===//
#include "ir/autograd/AttachLoss.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/Signature.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

namespace {
/// How a loss is called. Arguments after result and labels are numbers of options, None, or the reduction.
struct LossForm {
  llvm::StringLiteral name, irName;
  /// Of the arguments after the first two: an option's name, `none`, or `mean`.
  std::vector<llvm::StringLiteral> arguments;
  /// Labels are indices of classes.
  bool hasClasses = false;
};
struct OptionForm {
  double defaultValue;
  enum Kind { Bool, Int, Float } kind;
};
} // namespace

static const std::vector<LossForm> &lossForms() {
  static const std::vector<LossForm> forms{
      {"cross_entropy", "aten.cross_entropy_loss", {"none", "mean", "ignore_index", "label_smoothing"}, true},
      {"nll", "aten.nll_loss_nd", {"none", "mean", "ignore_index"}, true},
      {"mse", "aten.mse_loss", {"mean"}},
      {"l1", "aten.l1_loss", {"mean"}},
      {"smooth_l1", "aten.smooth_l1_loss", {"mean", "beta"}},
      {"huber", "aten.huber_loss", {"mean", "delta"}},
      {"kl_div", "aten.kl_div", {"mean", "log_target"}},
      {"binary_cross_entropy", "aten.binary_cross_entropy", {"none", "mean"}},
      {"binary_cross_entropy_with_logits",
       "aten.binary_cross_entropy_with_logits",
       {"none", "none", "mean"}}};
  return forms;
}

/// With the defaults of torch.nn.functional.
static const std::map<StringRef, OptionForm> &optionForms() {
  static const std::map<StringRef, OptionForm> forms{
      {"ignore_index", {-100, OptionForm::Int}}, {"label_smoothing", {0, OptionForm::Float}},
      {"beta", {1, OptionForm::Float}},          {"delta", {1, OptionForm::Float}},
      {"log_target", {0, OptionForm::Bool}},     {"shift", {0, OptionForm::Bool}}};
  return forms;
}

static const LossForm *formOf(StringRef name) {
  auto form = llvm::find_if(lossForms(), [&](const LossForm &each) { return each.name == name; });
  return form == lossForms().end() ? nullptr : &*form;
}

static bool takes(const LossForm &form, StringRef option) {
  return llvm::is_contained(form.arguments, option) || (option == "shift" && form.hasClasses);
}

//===- The text -----------------------------------------------------------===//

static std::optional<double> parseNumber(StringRef text, OptionForm::Kind kind) {
  double number;
  if (kind == OptionForm::Bool)
    return text == "true" ? std::optional(1.0) : text == "false" ? std::optional(0.0) : std::nullopt;
  if (text.getAsDouble(number) || !std::isfinite(number) ||
      (kind == OptionForm::Int && (number != std::round(number) || std::abs(number) > 1e9)))
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
  const LossForm *form = formOf(loss.name);
  auto names = llvm::map_range(lossForms(), [](const LossForm &each) { return each.name.str(); });
  if (!form)
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
  loss.labels = parts[1].trim().str();
  for (StringRef part : ArrayRef(parts).drop_front(2)) {
    auto [option, value] = part.split('=');
    auto known = optionForms().find(option.trim());
    if (known == optionForms().end() || !takes(*form, known->first))
      return fail("found the option \"" + option.trim() + "\", which " + loss.name + " does not have");
    auto number = parseNumber(value.trim(), known->second.kind);
    if (!number)
      return fail("option " + option.trim() + ": found \"" + value.trim() + "\", expected " +
                  (known->second.kind == OptionForm::Bool  ? "true or false"
                   : known->second.kind == OptionForm::Int ? "an integer"
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
        form(*formOf(loss.name)), b(terminator), location(terminator->getLoc()) {}

  LogicalResult build();

private:
  Value findResult();
  Value findLabels();
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
    return given == loss.options.end() ? optionForms().at(name).defaultValue : given->second;
  }
  /// Brings classes into the form of PyTorch's losses: [N, classes] and [N].
  LogicalResult flatten(Value &result, Value &labels);

  func::FuncOp function;
  Operation *terminator;
  const LossCall &loss;
  const LossForm &form;
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
  Value found;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
    names.push_back(name ? name.str() : "result " + std::to_string(i));
    if (name && (name.getValue() == loss.result || name.getValue().ends_with("." + loss.result)))
      found = found && name.getValue() != loss.result ? found : terminator->getOperand(i);
  }
  if (!found)
    function.emitError() << "the loss: found no result '" << loss.result << "', expected one of "
                         << llvm::join(names, ", ");
  return found;
}

Value LossBuilder::findLabels() {
  std::vector<std::string> names;
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == loss.labels)
      return argument;
    names.push_back(name ? name.str() : "argument " + std::to_string(argument.getArgNumber()));
  }
  function.emitError() << "the loss: found no input '" << loss.labels << "', expected one of "
                       << llvm::join(names, ", ") << "; trace a model that takes it";
  return {};
}

Value LossBuilder::argument(StringRef name) {
  if (name == "none")
    return constant(b.getNoneType(), b.getUnitAttr());
  if (name == "mean")
    return integer(1);
  switch (optionForms().at(name).kind) {
  case OptionForm::Bool:
    return constant(b.getI1Type(), b.getBoolAttr(option(name) != 0));
  case OptionForm::Int:
    return integer(int64_t(option(name)));
  case OptionForm::Float:
    return constant(b.getF64Type(), b.getF64FloatAttr(option(name)));
  }
  llvm_unreachable("all kinds are handled");
}

LogicalResult LossBuilder::flatten(Value &result, Value &labels) {
  auto resultType = cast<RankedTensorType>(result.getType()),
       labelsType = cast<RankedTensorType>(labels.getType());
  const SmallVector<std::string> sizes = sizesOf(resultType), given = sizesOf(labelsType);
  SmallVector<std::string> withoutLast(sizes), withoutSecond(sizes);
  if (!sizes.empty())
    withoutLast.pop_back();
  if (sizes.size() > 1)
    withoutSecond.erase(withoutSecond.begin() + 1);
  const bool isShifted = option("shift") != 0;
  if (given == withoutLast && (!isShifted || sizes.size() > 1)) {
    if (ShapedType::isDynamic(resultType.getShape().back()))
      return function.emitError() << "the loss: the number of classes is dynamic";
    const int64_t classes = resultType.getShape().back(), last = int64_t(given.size()) - 1;
    if (isShifted) {
      const int64_t end = std::numeric_limits<int64_t>::max();
      result = call("aten.slice.Tensor", {result, integer(last), integer(0), integer(-1), integer(1)});
      labels = call("aten.slice.Tensor", {labels, integer(last), integer(1), integer(end), integer(1)});
    }
    if (given.size() != 1) {
      result = call("aten.reshape", {result, integers({-1, classes})});
      labels = call("aten.reshape", {labels, integers({-1})});
    }
    return success();
  }
  if (given == withoutSecond && !isShifted)
    return success();
  return function.emitError() << "the loss: found labels " << labelsType << " for a result " << resultType
                              << ", expected the result's shape without its classes"
                              << (isShifted ? ", which are last" : ", which are last or in dimension 1");
}

LogicalResult LossBuilder::build() {
  Value result = findResult(), labels = result ? findLabels() : Value();
  if (!labels)
    return failure();
  auto resultType = dyn_cast<RankedTensorType>(result.getType()),
       labelsType = dyn_cast<RankedTensorType>(labels.getType());
  if (!resultType || !labelsType)
    return function.emitError() << "the loss: the type of '" << (resultType ? loss.labels : loss.result)
                                << "' is not known";
  if (form.hasClasses ? failed(flatten(result, labels)) : sizesOf(resultType) != sizesOf(labelsType))
    return form.hasClasses ? failure()
                           : LogicalResult(function.emitError()
                                           << "the loss: found '" << loss.labels << "' of type " << labelsType
                                           << ", expected the shape of " << resultType);
  SmallVector<Value> operands{result, labels};
  for (StringRef name : form.arguments)
    operands.push_back(argument(name));
  Value value = call(form.irName, operands);
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
