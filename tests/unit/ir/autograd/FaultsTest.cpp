// Faults put into a backward pass on purpose: the comparison with autograd must notice each of them.
#include "ir/Signature.h"
#include "ir/autograd/Differentiate.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/unit/interpreter/Interpreter.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <random>
#include <torch/csrc/autograd/autograd.h>

using namespace mlir;

namespace cleave {
namespace {

/// A layer of a transformer, small: norm, attention with a mask, residuals, an MLP whose first weight is tied
/// to the embedding's, and a loss. Every argument has a gradient but the indices.
constexpr llvm::StringLiteral kLayer = R"(
!x = tensor<?x6x8xf32, #cleave.layout<dims = ["batch", "6", "8"]>>
!t = !cleave.tensor
func.func @layer(%ids: tensor<?x6xi64, #cleave.layout<dims = ["batch", "6"]>> {cleave.name = "ids"},
                 %table: tensor<10x8xf32> {cleave.name = "table"}, %gain: tensor<8xf32> {cleave.name = "gain"},
                 %bias: tensor<8xf32> {cleave.name = "bias"}, %qkv: tensor<24x8xf32> {cleave.name = "qkv"},
                 %out: tensor<8x8xf32> {cleave.name = "out"}, %scale: tensor<1x1x8xf32> {cleave.name = "scale"},
                 %down: tensor<8x10xf32> {cleave.name = "down"}) -> (!t {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 3}} {
  %none = cleave.constant(unit) : none
  %false = cleave.constant(false) : i1
  %true = cleave.constant(true) : i1
  %padding = cleave.constant(-1 : i64) : i64
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %three = cleave.constant(3 : i64) : i64
  %eps = cleave.constant(1.0e-5 : f64) : f64
  %factor = cleave.constant(0.5 : f64) : f64
  %width = cleave.constant([8]) : !cleave.list<i64>
  %tanh = cleave.constant("tanh") : !cleave.str
  %x = aten.embedding(%table, %ids, %padding, %false, %false) : (tensor<10x8xf32>, tensor<?x6xi64, #cleave.layout<dims = ["batch", "6"]>>, i64, i1, i1) -> !t
  %n = aten.layer_norm(%x, %width, %gain, %bias, %eps, %false) : (!t, !cleave.list<i64>, tensor<8xf32>, tensor<8xf32>, f64, i1) -> !t
  %p = aten.linear(%n, %qkv, %none) : (!t, tensor<24x8xf32>, none) -> !t
  %parts = aten.chunk(%p, %three, %two) : (!t, i64, i64) -> !cleave.list<!t>
  %q, %k, %v = cleave.unpack %parts : (!cleave.list<!t>) -> (!t, !t, !t)
  %kt = aten.transpose.int(%k, %one, %two) : (!t, i64, i64) -> !t
  %s = aten.matmul(%q, %kt) : (!t, !t) -> !t
  %ss = aten.mul.Scalar(%s, %factor) : (!t, f64) -> !t
  %w = aten.softmax.int(%ss, %padding, %none) : (!t, i64, none) -> !t
  %a = aten.matmul(%w, %v) : (!t, !t) -> !t
  %o = aten.linear(%a, %out, %none) : (!t, tensor<8x8xf32>, none) -> !t
  %os = aten.mul.Tensor(%o, %scale) : (!t, tensor<1x1x8xf32>) -> !t
  %r = aten.add.Tensor(%x, %os, %one) : (!t, !t, i64) -> !t
  %u = aten.linear(%r, %table, %none) : (!t, tensor<10x8xf32>, none) -> !t
  %g = aten.gelu(%u, %tanh) : (!t, !cleave.str) -> !t
  %d = aten.linear(%g, %down, %none) : (!t, tensor<8x10xf32>, none) -> !t
  %y = aten.add.Tensor(%r, %d, %one) : (!t, !t, i64) -> !t
  %c = aten.mul.Tensor(%y, %y) : (!t, !t) -> !t
  %m = aten.mean(%c, %none) : (!t, none) -> !t
  return %m : !t
})";

class FaultsTest : public testing::Test {
protected:
  FaultsTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    module = parseSourceString<ModuleOp>(kLayer, &context);
    at::manual_seed(5);
    inputs = {at::randint(10, {3, 6}, at::kLong),
              at::randn({10, 8}),
              at::randn({8}),
              at::randn({8}),
              at::randn({24, 8}),
              at::randn({8, 8}),
              at::randn({1, 1, 8}),
              at::randn({8, 10})};
    expected = gradientsByAutograd();
    DerivativeOptions options;
    options.wantsInputGradient = [](llvm::StringRef) { return true; };
    EXPECT_TRUE(succeeded(differentiate(functionOf(*module), options)));
  }

  static func::FuncOp functionOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

  NamedTensors gradientsByAutograd() {
    Tensors leaves, trained;
    for (const at::Tensor &input : inputs) {
      leaves.push_back(input.clone().requires_grad_(input.is_floating_point()));
      if (input.is_floating_point())
        trained.push_back(leaves.back());
    }
    const at::Tensor loss = Interpreter({}, leaves).run(functionOf(*module)).results[0];
    Tensors found = torch::autograd::grad({loss}, trained);
    NamedTensors gradients;
    for (unsigned i = 1; i < inputs.size(); ++i)
      gradients[functionOf(*module).getArgAttrOfType<StringAttr>(i, kNameAttr).str()] = found[i - 1];
    return gradients;
  }

  /// As the tests of models compare: 1e-5 of the gradient's largest value, and 1e-6 of the model's.
  bool isSame(ModuleOp tested) {
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    func::FuncOp function = functionOf(tested);
    const Tensors results = Interpreter({}, inputs).run(function).results;
    double largest = 0;
    for (auto &[name, gradient] : expected)
      largest = std::max(largest, gradient.abs().max().item<double>());
    for (unsigned i = 1; i < results.size(); ++i) {
      const std::string name = function.getResultAttrOfType<StringAttr>(i, kNameAttr).str();
      const at::Tensor &wanted = expected[name.substr(gradientName("").size())];
      if (results[i].sizes() != wanted.sizes() ||
          !((results[i] - wanted).abs().max().item<double>() <=
            1e-5 * wanted.abs().max().item<double>() + 1e-6 * largest))
        return false;
    }
    return true;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Tensors inputs;
  NamedTensors expected;
};

/// Operations of the backward pass with one tensor as result, whose gradient has more than one element.
std::vector<OperatorOp> candidates(func::FuncOp function, llvm::function_ref<bool(OperatorOp)> fits) {
  std::vector<OperatorOp> found;
  bool isBackward = false;
  for (Operation &op : function.front()) {
    auto call = dyn_cast<OperatorOp>(op);
    isBackward |= call && call.getName() == "aten.ones_like";
    auto type =
        op.getNumResults() == 1 ? dyn_cast<RankedTensorType>(op.getResult(0).getType()) : RankedTensorType();
    if (isBackward && call && type && type.getRank() > 0 && !op.use_empty() && fits(call))
      found.push_back(call);
  }
  return found;
}

enum class Fault { DroppedTerm, WrongScale, StaleValue, NotSummed };

/// Puts the fault at a place that the dice choose; false if there is none.
bool putFault(func::FuncOp function, Fault fault, const Tensors &inputs, std::mt19937 &dice) {
  Interpreter values({}, inputs);
  values.run(function);
  auto isSum = [](OperatorOp op) { return op.getName() == "aten.sum.dim_IntList"; };
  auto isAddition = [](OperatorOp op) { return op.getName() == "aten.add.Tensor"; };
  // Rolled values are stale ones unless all are the same, as the gradients that a mean gives.
  auto varies = [&](OperatorOp op) {
    const at::Tensor &value = values.valueOf(op->getResult(0)).toTensor();
    return fault == Fault::WrongScale || !at::equal(value, value.roll(1, -1));
  };
  auto places = fault == Fault::DroppedTerm ? candidates(function, isAddition)
                : fault == Fault::NotSummed ? candidates(function, isSum)
                                            : candidates(function, varies);
  if (places.empty())
    return false;
  OperatorOp op = places[dice() % places.size()];
  Value result = op->getResult(0);
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  Location loc = op->getLoc();
  Type tensor = UnknownTensorType::get(op->getContext());
  auto replaceBy = [&](Value value) { result.replaceAllUsesExcept(value, value.getDefiningOp()); };
  if (fault == Fault::DroppedTerm) {
    result.replaceAllUsesWith(op->getOperand(dice() % 2));
  } else if (fault == Fault::WrongScale) {
    const double scales[] = {1.001, 0.5, 2.0, -1.0};
    Value scale = b.create<ConstantOp>(loc, b.getF64Type(), b.getF64FloatAttr(scales[dice() % 4]));
    replaceBy(OperatorOp::create(b, loc, "aten.mul.Scalar", {result, scale}, tensor)->getResult(0));
  } else if (fault == Fault::StaleValue) {
    // The values of the places before.
    Type integers = ListType::get(op->getContext(), b.getI64Type());
    Value shift = b.create<ConstantOp>(loc, integers, b.getI64ArrayAttr({1}));
    Value dim = b.create<ConstantOp>(loc, integers, b.getI64ArrayAttr({-1}));
    replaceBy(OperatorOp::create(b, loc, "aten.roll", {result, shift, dim}, tensor)->getResult(0));
  } else {
    // One of the summands in place of the sum.
    Value flat = OperatorOp::create(b, loc, "aten.amax",
                                    {op->getOperand(0), op->getOperand(1), op->getOperand(2)}, tensor)
                     ->getResult(0);
    result.replaceAllUsesWith(flat);
  }
  return true;
}

TEST_F(FaultsTest, WithoutAFaultGradientsAreTheSame) { EXPECT_TRUE(isSame(*module)); }

TEST_F(FaultsTest, EachIsNoticed) {
  unsigned put = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    OwningOpRef<ModuleOp> faulty = module->clone();
    std::mt19937 dice(seed);
    const auto fault = static_cast<Fault>(seed % 4);
    ASSERT_TRUE(putFault(functionOf(*faulty), fault, inputs, dice)) << "kind " << seed % 4;
    ++put;
    bool isNoticed = true;
    try {
      isNoticed = !isSame(*faulty);
    } catch (const std::exception &) {
      // Shapes that do not fit are noticed, too.
    }
    std::string shown;
    if (!isNoticed)
      llvm::raw_string_ostream(shown) << *faulty;
    EXPECT_TRUE(isNoticed) << "kind " << seed % 4 << ", seed " << seed << "\n" << shown;
  }
  EXPECT_EQ(put, 60u);
}

} // namespace
} // namespace cleave
