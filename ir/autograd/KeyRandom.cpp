//===- KeyRandom.cpp ------------------------------------------------------===//
#include "ir/autograd/KeyRandom.h"
#include "ir/OperatorDialect.h"
#include "ir/SymbolicDim.h"
#include "ir/autograd/StepInputs.h"
#include "ir/semantics/OpSemantics.h"
#include "random/SplitMix.h"

using namespace mlir;

namespace cleave {

namespace {
/// A dimension of a random value: `count` indices, for each sample if it has samples.
struct RandomDim {
  SymbolicDim count;
  bool hasSamples = false;
};

class KeyRandom {
public:
  KeyRandom(func::FuncOp function, StringRef batch) : function(function), batch(batch) {}
  void run();

private:
  std::optional<SmallVector<RandomDim>> dimsOf(RankedTensorType type) const;
  void rewrite(OperatorOp call, int64_t stream);
  /// The list of index tensors for a value.
  Value indicesOf(OpBuilder &b, Location location, ArrayRef<RandomDim> dims);
  Value alongDim(OpBuilder &b, Location location, const RandomDim &dim);
  Value key() { return keyInput ? keyInput : keyInput = scalarInput(); }
  Value scalarInput() {
    return addStepInput(function, kRandomKeyRole,
                        RankedTensorType::get({}, IntegerType::get(function.getContext(), 64)));
  }
  Value samples();

  Value call(OpBuilder &b, Location location, StringRef name, ValueRange operands) {
    return OperatorOp::create(b, location, name, operands, UnknownTensorType::get(function.getContext()))
        ->getResult(0);
  }
  Value integer(OpBuilder &b, Location location, int64_t value) {
    return b.create<ConstantOp>(location, b.getI64Type(), b.getI64IntegerAttr(value));
  }
  Value integers(OpBuilder &b, Location location, ArrayRef<int64_t> values) {
    return b.create<ConstantOp>(location, ListType::get(function.getContext(), b.getI64Type()),
                                b.getI64ArrayAttr(values));
  }
  Value size(OpBuilder &b, Location location, const SymbolicDim &value) {
    if (auto constant = value.asConstant())
      return integer(b, location, *constant);
    return b.create<SizeOp>(location, value.str());
  }

  func::FuncOp function;
  const StringRef batch;
  Value keyInput, sampleInput;
};
} // namespace

/// Stride of a dimension in the element index; `fromLast` 0 is the last dimension. Odd constants (SplitMix64)
/// that do not depend on sizes, so that neither the batch size nor the offset of a micro-batch changes an
/// index. Two elements of a value share a number only if the differences of their positions, times the
/// strides, sum to 0 modulo 2^64 (2^63 for `normal`).
static int64_t strideOf(unsigned fromLast) {
  if (fromLast == 0)
    return 1;
  return int64_t(mix64(fromLast * kSplitMixStep) | 1);
}

/// size / name; nothing if `name` is not a factor of it, once.
static std::optional<SymbolicDim> withoutFactor(const SymbolicDim &size, StringRef name) {
  std::map<SymbolicDim::Monomial, int64_t> terms;
  for (const auto &[names, scale] : size.getTerms()) {
    SymbolicDim::Monomial others = names;
    auto found = llvm::find(others, name);
    if (found == others.end())
      return std::nullopt;
    others.erase(found);
    if (llvm::is_contained(others, name))
      return std::nullopt;
    terms[others] = scale;
  }
  return size.getDivisor() == 1 ? std::optional(SymbolicDim::make(std::move(terms))) : std::nullopt;
}

static bool mentions(const SymbolicDim &size, StringRef name) {
  return llvm::any_of(size.getTerms(), [&](auto &term) { return llvm::is_contained(term.first, name); });
}

/// Nothing if a size is unknown, or has the batch in another way than once as a factor.
std::optional<SmallVector<RandomDim>> KeyRandom::dimsOf(RankedTensorType type) const {
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  SmallVector<RandomDim> dims;
  bool hasSamples = false;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    auto size = layout && size_t(i) < layout.getDims().size()
                    ? SymbolicDim::parse(layout.getDims()[i])
                    : std::optional(type.isDynamicDim(i) ? SymbolicDim::unknown()
                                                         : SymbolicDim::constant(type.getDimSize(i)));
    if (!size || size->isUnknown())
      return std::nullopt;
    if (batch.empty() || !mentions(*size, batch)) {
      dims.push_back({*size});
      continue;
    }
    auto count = withoutFactor(*size, batch);
    if (hasSamples || !count)
      return std::nullopt;
    hasSamples = true;
    dims.push_back({*count, true});
  }
  return dims;
}

Value KeyRandom::samples() {
  if (sampleInput)
    return sampleInput;
  MLIRContext *context = function.getContext();
  auto type = RankedTensorType::get({ShapedType::kDynamic}, IntegerType::get(context, 64),
                                    LayoutAttr::get(context, {batch.str()}, {}));
  return sampleInput = addStepInput(function, kSampleIndexRole, type);
}

/// 0, 1, … along one dimension, a vector; for the samples at hand where it has samples.
Value KeyRandom::alongDim(OpBuilder &b, Location location, const RandomDim &dim) {
  const Value none = b.create<ConstantOp>(location, b.getNoneType(), b.getUnitAttr());
  const Value count = size(b, location, dim.count);
  if (dim.hasSamples && dim.count.asConstant() == 1)
    return samples();
  const Value range = call(b, location, "aten.arange", {count, none, none, none, none});
  if (!dim.hasSamples)
    return range;
  // Samples are the outer factor of the dimension.
  const Value rows = call(b, location, "aten.mul.Scalar", {samples(), count});
  const Value column = call(b, location, "aten.unsqueeze", {rows, integer(b, location, 1)});
  const Value all = call(b, location, "aten.add.Tensor", {column, range, integer(b, location, 1)});
  return call(b, location, "aten.reshape", {all, integers(b, location, {-1})});
}

Value KeyRandom::indicesOf(OpBuilder &b, Location location, ArrayRef<RandomDim> dims) {
  SmallVector<Value> indices;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Value index = alongDim(b, location, dim);
    if (const int64_t stride = strideOf(dims.size() - 1 - i); stride != 1)
      index = call(b, location, "aten.mul.Scalar", {index, integer(b, location, stride)});
    SmallVector<int64_t> shape(dims.size() - i, 1);
    shape.front() = -1;
    indices.push_back(
        shape.size() == 1 ? index : call(b, location, "aten.reshape", {index, integers(b, location, shape)}));
  }
  if (indices.empty()) {
    const Value none = b.create<ConstantOp>(location, b.getNoneType(), b.getUnitAttr());
    indices.push_back(call(b, location, "aten.scalar_tensor",
                           {integer(b, location, 0), integer(b, location, 4), none, none, none}));
  }
  return b.create<ListOp>(location, ListType::get(b.getContext(), UnknownTensorType::get(b.getContext())),
                          indices);
}

void KeyRandom::rewrite(OperatorOp call, int64_t stream) {
  auto form = semanticsOf(call.getName()).keyedForm;
  auto type = form && call->getNumResults() == 1 ? dyn_cast<RankedTensorType>(call->getResult(0).getType())
                                                 : RankedTensorType();
  auto dims = type && !isa<ComplexType>(type.getElementType()) ? dimsOf(type) : std::nullopt;
  // A strided result must be like operand 0, whose strides it takes.
  auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
  const bool isStrided = layout && !layout.getStrides().empty();
  if (!dims || (isStrided && call->getOperand(0).getType() != type))
    return;
  OpBuilder b(call);
  const Location location = call->getLoc();
  Value drawn = form(call, {.builder = b,
                            .location = location,
                            .key = key(),
                            .stream = integer(b, location, stream),
                            .indices = indicesOf(b, location, *dims),
                            .type = type});
  if (!drawn)
    return;
  if (isStrided)
    drawn = this->call(
        b, location, "aten.copy",
        {call->getOperand(0), drawn, b.create<ConstantOp>(location, b.getI1Type(), b.getBoolAttr(false))});
  drawn.setType(type);
  call->getResult(0).replaceAllUsesWith(drawn);
  call->erase();
}

void KeyRandom::run() {
  SmallVector<OperatorOp> calls;
  for (auto call : function.getOps<OperatorOp>())
    if (isRandom(call))
      calls.push_back(call);
  for (auto [stream, call] : llvm::enumerate(calls))
    rewrite(call, stream);
}

void keyRandom(func::FuncOp function, StringRef batch) { KeyRandom(function, batch).run(); }

} // namespace cleave
