// Gradients of calls, as IR, against those of libtorch's autograd: at the sizes at which they were recorded,
// and at others.
#include "ir/autograd/Differentiate.h"
#include "GradientCases.h"
#include "ir/Signature.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/unit/interpreter/Interpreter.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

using namespace mlir;

namespace cleave {
namespace {

using llvm::StringRef;
using Sizes = std::map<char, int64_t>;
const Sizes kExample{{'N', 4}, {'M', 6}, {'K', 5}};

MLIRContext &context() {
  static MLIRContext instance = [] {
    DialectRegistry registry;
    registerDialects(registry);
    return MLIRContext(registry, MLIRContext::Threading::DISABLED);
  }();
  return instance;
}

/// An argument that is a tensor, read from its text.
struct TensorArgument {
  enum Values { Normal, Positive, Unit, Below } values = Normal;
  bool isFixed = false;
  std::string below, element;
  std::vector<std::string> dims;

  static TensorArgument parse(StringRef text) {
    TensorArgument made;
    if (text.consume_front("positive "))
      made.values = Positive;
    else if (text.consume_front("unit "))
      made.values = Unit;
    else if (text.consume_front("below ")) {
      made.values = Below;
      made.below = text.split(' ').first;
      text = text.split(' ').second;
    }
    made.isFixed = text.consume_front("fixed ");
    llvm::SmallVector<StringRef> parts;
    text.drop_front(StringRef("tensor<").size()).drop_back().split(parts, 'x');
    made.element = parts.pop_back_val();
    made.isFixed |= StringRef(made.element).starts_with("i");
    made.dims.assign(parts.begin(), parts.end());
    return made;
  }

  static int64_t evaluate(StringRef dim, const Sizes &sizes) {
    llvm::StringMap<int64_t> named;
    for (auto [name, size] : sizes)
      named[StringRef(&name, 1)] = size;
    return *SymbolicDim::parse(dim)->evaluate(named);
  }

  std::string type() const {
    std::vector<std::string> shape, names;
    bool isDynamic = false;
    for (const std::string &dim : dims) {
      const bool isName = !llvm::isDigit(dim[0]);
      isDynamic |= isName;
      shape.push_back(isName ? "?x" : dim + "x");
      names.push_back("\"" + dim + "\"");
    }
    return "tensor<" + llvm::join(shape, "") + element +
           (isDynamic ? ", #cleave.layout<dims = [" + llvm::join(names, ", ") + "]>>" : ">");
  }

  at::Tensor make(const Sizes &sizes) const {
    std::vector<int64_t> shape;
    for (const std::string &dim : dims)
      shape.push_back(evaluate(dim, sizes));
    if (element == "i1")
      return at::rand(shape) > 0.4;
    if (element[0] == 'i')
      return at::randint(values == Below ? evaluate(below, sizes) : 3, shape, at::kLong);
    at::Tensor made = values == Positive ? at::rand(shape) + 0.5
                      : values == Unit   ? at::rand(shape) * 0.8 + 0.1
                                         : at::randn(shape);
    return made.to(element == "bf16" ? at::kBFloat16 : element == "f64" ? at::kDouble : at::kFloat);
  }
};

/// Text of a function that calls the operator, and the values to run it with.
class CallText {
public:
  explicit CallText(const GradientCase &tested) : tested(tested), schema(findSchema(tested.name)) {
    for (const std::string &argument : tested.arguments)
      add(argument);
  }

  /// The operands of the call, for libtorch.
  torch::jit::Stack operands(const Tensors &tensors, const Sizes &sizes) const {
    size_t next = 0;
    torch::jit::Stack stack;
    for (const std::string &argument : tested.arguments)
      stack.push_back(operand(argument, isOptionalList(stack.size()), tensors, next, sizes));
    return stack;
  }

  /// A function with an argument for each tensor, and one that has all dynamic dimensions. Its result `loss`
  /// is the sum of the results times numbers that depend on them. Only `isUsed` ones count. `lengths`: of
  /// results that are lists, else 0.
  std::string text(ArrayRef<bool> isUsed, ArrayRef<size_t> lengths) {
    std::string results, lines = body, loss;
    for (size_t i = 0; i < lengths.size(); ++i)
      results +=
          (i ? ", " : "") + std::string(lengths[i] ? "!cleave.list<!cleave.tensor>" : "!cleave.tensor");
    lines += "  %r:" + std::to_string(lengths.size()) + " = " + tested.name + "(" + llvm::join(values, ", ") +
             ") : (" + llvm::join(types, ", ") + ") -> (" + results + ")\n";
    size_t used = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const std::string of = "%r#" + std::to_string(i), item = "%i" + std::to_string(i);
      if (!lengths[i]) {
        if (isUsed[used++])
          addTerm(of, lines, loss);
        continue;
      }
      const std::vector<std::string> items(lengths[i], "!cleave.tensor");
      lines += "  " + item + ":" + std::to_string(lengths[i]) + " = cleave.unpack " + of +
               " : (!cleave.list<!cleave.tensor>) -> (" + llvm::join(items, ", ") + ")\n";
      for (size_t k = 0; k < lengths[i]; ++k)
        if (isUsed[used++])
          addTerm(item + "#" + std::to_string(k), lines, loss);
    }
    arguments.push_back("%sizes: tensor<?x?x?xf32, #cleave.layout<dims = [\"N\", \"M\", \"K\"]>>");
    return "func.func @f(" + llvm::join(arguments, ", ") +
           ") -> (!cleave.tensor {cleave.name = \"loss\"}) attributes {cleave.symbols = {N = 4, M = 6, K = "
           "5}} {\n" +
           "  %one = cleave.constant(1 : i64) : i64\n  %three = cleave.constant(3.0 : f64) : f64\n" +
           "  %none = cleave.constant(unit) : none\n" + lines + "  return " + loss + " : !cleave.tensor\n}\n";
  }

  std::vector<TensorArgument> tensors;

private:
  /// Adds sum(result * sin(3 * result + 1)) to the loss, with the second factor as a constant.
  void addTerm(const std::string &result, std::string &lines, std::string &loss) {
    const std::string n = std::to_string(count++), t = "!cleave.tensor";
    lines += "  %d" + n + " = aten.detach(" + result + ") : (" + t + ") -> " + t + "\n";
    lines += "  %m" + n + " = aten.mul.Scalar(%d" + n + ", %three) : (" + t + ", f64) -> " + t + "\n";
    lines +=
        "  %a" + n + " = aten.add.Scalar(%m" + n + ", %one, %one) : (" + t + ", i64, i64) -> " + t + "\n";
    lines += "  %s" + n + " = aten.sin(%a" + n + ") : (" + t + ") -> " + t + "\n";
    lines += "  %p" + n + " = aten.mul.Tensor(" + result + ", %s" + n + ") : (" + t + ", " + t + ") -> " + t +
             "\n";
    lines += "  %t" + n + " = aten.sum(%p" + n + ", %none) : (" + t + ", none) -> " + t + "\n";
    if (!loss.empty())
      lines += "  %l" + n + " = aten.add.Tensor(" + loss + ", %t" + n + ", %one) : (" + t + ", " + t +
               ", i64) -> " + t + "\n";
    loss = (loss.empty() ? "%t" : "%l") + n;
  }

  static bool isTensor(StringRef text) { return text.contains("tensor<") && !text.starts_with("("); }
  static llvm::SmallVector<StringRef> itemsOf(StringRef list) {
    llvm::SmallVector<StringRef> items;
    list.drop_front().drop_back().split(items, list.starts_with("(") ? ';' : ',', -1, /*KeepEmpty=*/false);
    for (StringRef &item : items)
      item = item.trim();
    return items;
  }

  void addValue(const std::string &type, const std::string &line) {
    values.push_back("%v" + std::to_string(count++));
    types.push_back(type);
    body += "  " + values.back() + " = " + line + "\n";
  }

  std::pair<std::string, std::string> addTensor(StringRef text) {
    tensors.push_back(TensorArgument::parse(text));
    const std::string number = std::to_string(tensors.size() - 1);
    arguments.push_back("%x" + number + ": " + tensors.back().type() + " {cleave.name = \"x" + number +
                        "\"}");
    return {"%x" + number, tensors.back().type()};
  }

  void addList(StringRef text) {
    std::vector<std::string> names, itemTypes;
    bool isOptional = false;
    for (StringRef item : itemsOf(text)) {
      isOptional |= item == "none";
      auto [name, type] =
          item == "none" ? std::pair<std::string, std::string>{"%none", "none"} : addTensor(item);
      names.push_back(name);
      itemTypes.push_back(type);
    }
    isOptional |= isOptionalList(values.size());
    const std::string type =
        isOptional ? "!cleave.list<!cleave.optional<!cleave.tensor>>" : "!cleave.list<!cleave.tensor>";
    addValue(type, "cleave.list(" + llvm::join(names, ", ") + ") : (" + llvm::join(itemTypes, ", ") +
                       ") -> " + type);
  }

  void addSizes(StringRef text) {
    std::vector<std::string> names;
    std::vector<std::string> integers;
    for (StringRef item : itemsOf(text)) {
      names.push_back("%n" + std::to_string(count++));
      integers.push_back("i64");
      body += "  " + names.back() + " = cleave.size \"" + item.str() + "\"\n";
    }
    addValue("!cleave.list<i64>", "cleave.list(" + llvm::join(names, ", ") + ") : (" +
                                      llvm::join(integers, ", ") + ") -> !cleave.list<i64>");
  }

  void add(const std::string &text) {
    const bool isList = text[0] == '[';
    const bool hasSizes = text.find_first_of("NMK") != std::string::npos && text[0] != '"';
    if (isTensor(text)) {
      auto [name, type] = addTensor(text);
      values.push_back(name);
      types.push_back(type);
    } else if (text[0] == '(') {
      addList(text);
    } else if (isList && hasSizes) {
      addSizes(text);
    } else if (isList) {
      const char *element = text.find('.') != std::string::npos   ? "f64"
                            : text.find('e') != std::string::npos ? "i1"
                                                                  : "i64";
      const std::string type = std::string("!cleave.list<") + element + ">";
      addValue(type, "cleave.constant(" + text + ") : " + type);
    } else if (hasSizes) {
      addValue("i64", "cleave.size \"" + text + "\"");
    } else if (text == "none") {
      addValue("none", "cleave.constant(unit) : none");
    } else if (text == "true" || text == "false") {
      addValue("i1", "cleave.constant(" + text + ") : i1");
    } else if (text[0] == '"') {
      addValue("!cleave.str", "cleave.constant(" + text + ") : !cleave.str");
    } else {
      const std::string type = text.find('.') != std::string::npos ? "f64" : "i64";
      addValue(type, "cleave.constant(" + text + " : " + type + ") : " + type);
    }
  }

  static c10::IValue scalar(StringRef text, const Sizes &sizes) {
    if (text == "none")
      return {};
    if (text == "true" || text == "false")
      return text == "true";
    if (text.starts_with("\""))
      return text.drop_front().drop_back().str();
    if (text.contains('.')) {
      double number = 0;
      text.getAsDouble(number);
      return number;
    }
    int64_t number = 0;
    return text.getAsInteger(10, number) ? TensorArgument::evaluate(text, sizes) : number;
  }

  bool isOptionalList(size_t argument) const {
    return schema->arguments[argument].type == "List[Optional[Tensor]]";
  }

  static c10::IValue operand(StringRef text, bool isOptional, const Tensors &tensors, size_t &next,
                             const Sizes &sizes) {
    if (isTensor(text))
      return tensors[next++];
    if (text.starts_with("[")) {
      auto items = itemsOf(text);
      if (text.contains("true") || text.contains("false")) {
        c10::List<bool> list;
        for (StringRef item : items)
          list.push_back(scalar(item, sizes).toBool());
        return list;
      }
      if (text.contains('.')) {
        std::vector<double> list;
        for (StringRef item : items)
          list.push_back(scalar(item, sizes).toDouble());
        return list;
      }
      std::vector<int64_t> list;
      for (StringRef item : items)
        list.push_back(scalar(item, sizes).toInt());
      return list;
    }
    if (!text.starts_with("("))
      return scalar(text, sizes);
    c10::List<std::optional<at::Tensor>> optional;
    c10::List<at::Tensor> list;
    for (StringRef item : itemsOf(text)) {
      optional.push_back(item == "none" ? std::nullopt : std::optional(tensors[next]));
      if (item != "none")
        list.push_back(tensors[next++]);
    }
    return isOptional ? c10::IValue(optional) : c10::IValue(list);
  }

  const GradientCase &tested;
  const OperatorSchema *schema;
  std::string body;
  std::vector<std::string> arguments, values, types;
  unsigned count = 0;
};

Tensors tensorsIn(const torch::jit::Stack &stack) {
  Tensors found;
  for (const c10::IValue &value : stack) {
    if (value.isTensor())
      found.push_back(value.toTensor());
    else if (value.isTensorList())
      llvm::append_range(found, value.toTensorVector());
  }
  return found;
}

/// Results and gradients of the call by libtorch.
struct Eager {
  Eager(const GradientCase &tested, const CallText &text, const Tensors &inputs, const Sizes &sizes) {
    Tensors leaves, differentiated, gradOutputs;
    for (auto [input, argument] : llvm::zip(inputs, text.tensors))
      leaves.push_back(input.detach().clone().requires_grad_(!argument.isFixed));
    torch::jit::Stack stack = text.operands(leaves, sizes);
    findOperator(tested.name)->getOperation()(stack);
    for (const c10::IValue &value : stack)
      lengths.push_back(value.isTensorList() ? value.toTensorVector().size() : 0);
    for (const at::Tensor &result : tensorsIn(stack)) {
      isUsed.push_back(result.defined() && result.requires_grad());
      if (!isUsed.back())
        continue;
      differentiated.push_back(result);
      gradOutputs.push_back((result.detach() * 3.0 + 1).sin());
    }
    Tensors wanted;
    for (const at::Tensor &leaf : leaves)
      if (leaf.requires_grad())
        wanted.push_back(leaf);
    auto found = torch::autograd::grad(differentiated, wanted, gradOutputs, {}, false, /*allow_unused=*/true);
    size_t next = 0;
    for (const at::Tensor &leaf : leaves)
      gradients.push_back(leaf.requires_grad() ? found[next++] : at::Tensor());
  }

  llvm::SmallVector<bool> isUsed;
  llvm::SmallVector<size_t> lengths;
  Tensors gradients;
};

class DifferentiateTest : public testing::TestWithParam<GradientCase> {
protected:
  Tensors makeInputs(const Sizes &sizes) const {
    Tensors inputs;
    for (const TensorArgument &argument : text.tensors)
      inputs.push_back(argument.make(sizes));
    return inputs;
  }

  /// Makes the function, and adds gradients of its arguments that are not fixed. False with a `reason`.
  bool tryDifferentiate() {
    at::manual_seed(7);
    Eager example(tested, text, makeInputs(kExample), kExample);
    module = parseSourceString<ModuleOp>(text.text(example.isUsed, example.lengths), &context());
    function = *module->getOps<func::FuncOp>().begin();
    DerivativeOptions options;
    options.loss = "loss";
    options.wantsInputGradient = [&](StringRef name) {
      unsigned index = text.tensors.size();
      name.drop_front(name.size() ? 1 : 0).getAsInteger(10, index);
      return index < text.tensors.size() && !text.tensors[index].isFixed;
    };
    ScopedDiagnosticHandler handler(&context(), [&](Diagnostic &diagnostic) {
      reason += diagnostic.str() + "\n";
      return success();
    });
    return succeeded(differentiate(function, options)) && succeeded(verify(*module));
  }

  const GradientCase &tested = GetParam();
  CallText text{tested};
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::string reason;
};
class AutogradFallbackTest : public DifferentiateTest {};

void expectSame(const at::Tensor &found, const at::Tensor &expected, const std::string &what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  ASSERT_EQ(found.scalar_type(), expected.scalar_type()) << what;
  const double largest = expected.abs().max().item<double>();
  const double allowed = (expected.scalar_type() == at::kBFloat16 ? 1e-2 : 1e-5) * std::max(1.0, largest);
  EXPECT_LE((found - expected).abs().max().item<double>(), allowed) << what << "\n" << found << expected;
}

TEST_P(AutogradFallbackTest, KeepsTheCall) {
  ASSERT_TRUE(tryDifferentiate()) << reason;
  auto calls = function.getOps<VjpOp>();
  ASSERT_EQ(std::distance(calls.begin(), calls.end()), 1);
  VjpOp call = *calls.begin();
  EXPECT_NE(call.getReason().value_or(""), "");
  bool isKept = false;
  for (Operation &op : call.getBody().front())
    isKept |= op.getName().getStringRef() == tested.name;
  EXPECT_TRUE(isKept);
}

TEST_P(DifferentiateTest, EqualsAutograd) {
  ASSERT_TRUE(tryDifferentiate()) << reason;
  std::string shown;
  llvm::raw_string_ostream(shown) << *module;

  for (const Sizes &sizes :
       {kExample, Sizes{{'N', 3}, {'M', 9}, {'K', 2}}, Sizes{{'N', 7}, {'M', 5}, {'K', 8}}}) {
    const Tensors inputs = makeInputs(sizes);
    Eager eager(tested, text, inputs, sizes);
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    Tensors cloned;
    for (const at::Tensor &input : inputs)
      cloned.push_back(input.clone());
    cloned.push_back(at::empty({sizes.at('N'), sizes.at('M'), sizes.at('K')}));
    const Tensors results = Interpreter({}, cloned).run(function).results;
    NamedTensors found;
    for (unsigned i = 0; i < results.size(); ++i)
      found[function.getResultAttrOfType<StringAttr>(i, kNameAttr).str()] = results[i];
    for (auto [i, gradient] : llvm::enumerate(eager.gradients)) {
      if (text.tensors[i].isFixed)
        continue;
      const std::string name = gradientName("x" + std::to_string(i));
      at::Tensor zero = at::zeros_like(inputs[i]);
      expectSame(found.count(name) ? found[name] : zero, gradient.defined() ? gradient : zero,
                 name + " at N=" + std::to_string(sizes.at('N')) + "\n" + shown);
    }
  }
}

/// The operator and its index in the list.
std::string nameOf(const testing::TestParamInfo<GradientCase> &info) {
  std::string name = info.param.name + "_" + std::to_string(info.index);
  for (char &c : name)
    c = llvm::isAlnum(c) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Elementwise, DifferentiateTest, testing::ValuesIn(kElementwiseCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Products, DifferentiateTest, testing::ValuesIn(kProductCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Attention, DifferentiateTest, testing::ValuesIn(kAttentionCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Norms, DifferentiateTest, testing::ValuesIn(kNormCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Views, DifferentiateTest, testing::ValuesIn(kViewCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Indexing, DifferentiateTest, testing::ValuesIn(kIndexingCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Convolutions, DifferentiateTest, testing::ValuesIn(kConvolutionCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Losses, DifferentiateTest, testing::ValuesIn(kLossCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Fallback, AutogradFallbackTest, testing::ValuesIn(kFallbackCases), nameOf);
INSTANTIATE_TEST_SUITE_P(Recurrent, AutogradFallbackTest, testing::ValuesIn(kRecurrentCases), nameOf);

} // namespace
} // namespace cleave
