//===- Random.cpp - Semantics of random operators -------------------------===//
#include "ir/DTypeCode.h"
#include "ir/semantics/SemanticsTable.h"

using namespace mlir;

namespace cleave {

//===- KeyedDraw ----------------------------------------------------------===//

Value KeyedDraw::call(StringRef irName, ValueRange operands) const {
  return OperatorOp::create(builder, location, irName, operands, UnknownTensorType::get(builder.getContext()))
      ->getResult(0);
}

Value KeyedDraw::real(double value) const {
  return builder.create<ConstantOp>(location, builder.getF64Type(), builder.getF64FloatAttr(value));
}

Value KeyedDraw::dtype() const {
  return builder.create<ConstantOp>(
      location, builder.getI64Type(),
      builder.getI64IntegerAttr(*dtypeCodeOf(RankedTensorType(type).getElementType())));
}

KeyedDraw KeyedDraw::inFloat32() const {
  KeyedDraw draw = *this;
  RankedTensorType own = type;
  if (!own.getElementType().isF64())
    draw.type = RankedTensorType::get(own.getShape(), builder.getF32Type(), own.getEncoding());
  return draw;
}

Value KeyedDraw::uniform() const { return call("random.uniform", {key, stream, indices, dtype()}); }

Value KeyedDraw::normal() const { return call("random.normal", {key, stream, indices, dtype()}); }

Value KeyedDraw::bernoulli(Value p) const {
  return call("random.bernoulli", {key, stream, indices, p, dtype()});
}

Value KeyedDraw::converted(Value value) const {
  const Value no = builder.create<ConstantOp>(location, builder.getI1Type(), builder.getBoolAttr(false));
  const Value none = builder.create<ConstantOp>(location, builder.getNoneType(), builder.getUnitAttr());
  return call("aten.to.dtype", {value, dtype(), no, no, none});
}

//===- Forms --------------------------------------------------------------===//

/// bernoulli.p(self, p, generator): 1 with probability p. bernoulli.Tensor(self, p, generator): with those in
/// p. bernoulli(self, generator): with those in self.
static Value bernoulliForm(OperatorOp op, const KeyedDraw &draw) {
  Value p = op.getArgument("p");
  if (p && isa<FloatType>(p.getType()))
    return draw.bernoulli(p);
  const KeyedDraw wide = draw.inFloat32();
  return draw.converted(wide.call("aten.lt.Tensor", {wide.uniform(), p ? p : op->getOperand(0)}));
}

static Value uniformForm(OperatorOp, const KeyedDraw &draw) { return draw.uniform(); }

static Value normalForm(OperatorOp, const KeyedDraw &draw) { return draw.normal(); }

static std::optional<double> constantReal(OperatorOp op, StringRef argument) {
  auto value = dyn_cast_or_null<FloatAttr>(op.getConstantArgument(argument));
  return value ? std::optional(value.getValueAsDouble()) : std::nullopt;
}

/// value · scale + shift.
static Value scaled(const KeyedDraw &draw, Value value, Value scale, Value shift) {
  Value one = draw.builder.create<ConstantOp>(draw.location, draw.builder.getI64Type(),
                                              draw.builder.getI64IntegerAttr(1));
  return draw.call("aten.add.Scalar", {draw.call("aten.mul.Scalar", {value, scale}), shift, one});
}

/// uniform(self, from, to, generator).
static Value uniformOfRange(OperatorOp op, const KeyedDraw &draw) {
  Value from = op.getArgument("from"), to = op.getArgument("to"), drawn = draw.uniform();
  const auto low = constantReal(op, "from"), high = constantReal(op, "to");
  if (low && high)
    return scaled(draw, drawn, draw.real(*high - *low), from);
  // Bounds known only at run time: from · (1 - u) + to · u needs no arithmetic on scalars.
  Value oneMinusDrawn = scaled(draw, drawn, draw.real(-1), draw.real(1));
  Value one = draw.builder.create<ConstantOp>(draw.location, draw.builder.getI64Type(),
                                              draw.builder.getI64IntegerAttr(1));
  return draw.call("aten.add.Tensor", {draw.call("aten.mul.Scalar", {oneMinusDrawn, from}),
                                       draw.call("aten.mul.Scalar", {drawn, to}), one});
}

/// normal_functional(self, mean, std, generator).
static Value normalOfMoments(OperatorOp op, const KeyedDraw &draw) {
  return scaled(draw, draw.normal(), op.getArgument("std"), op.getArgument("mean"));
}

/// exponential(self, lambd, generator): -log1p(-max(u, 2^-25)) / lambd, in float32 (float64 for a float64
/// result). The clamp avoids 0, because models take the logarithm; a float16 result may still round to 0.
static Value exponentialForm(OperatorOp op, const KeyedDraw &draw) {
  const KeyedDraw wide = draw.inFloat32();
  auto negative = [&](Value value) { return wide.call("aten.neg", value); };
  Value positive = wide.call("aten.clamp_min", {wide.uniform(), wide.real(0x1p-25)});
  Value drawn = negative(wide.call("aten.log1p", negative(positive)));
  return draw.converted(wide.call("aten.div.Scalar", {drawn, op->getOperand(1)}));
}

/// dropout(input, p, train), as libtorch composes it.
static Value dropoutForm(OperatorOp op, const KeyedDraw &draw) {
  const auto p = constantReal(op, "p");
  auto train = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument("train"));
  if (!p || !(*p >= 0 && *p < 1) || !train || train.getValue().isZero())
    return {};
  Value kept = draw.real(1 - *p);
  return draw.call("aten.mul.Tensor",
                   {op->getOperand(0), draw.call("aten.div.Scalar", {draw.bernoulli(kept), kept})});
}

void addRandom(SemanticsTable &table) {
  auto form = [&](auto *keyedForm, std::initializer_list<StringRef> names) {
    table.set(&OpSemantics::keyedForm, keyedForm, names);
  };
  form(bernoulliForm, {"aten.bernoulli"});
  form(dropoutForm, {"aten.dropout"});
  form(uniformForm, {"aten.rand", "aten.rand_like"});
  form(normalForm, {"aten.randn", "aten.randn_like"});
  form(uniformOfRange, {"aten.uniform"});
  form(normalOfMoments, {"aten.normal_functional"});
  form(exponentialForm, {"aten.exponential"});
}

} // namespace cleave
