//===- SpmdBuilder.cpp - Builder of SPMD programs -------------------------===//
#include "passes/SpmdBuilder.h"
#include "ir/ExampleShapes.h"

using namespace mlir;

namespace cleave {

SpmdBuilder::SpmdBuilder(func::FuncOp function, unsigned ranks)
    : ranks(ranks), builder(function.getContext()), location(builder.getUnknownLoc()),
      sizes(ExampleShapes(function).sizes()) {}

Value SpmdBuilder::perRank(Type type, ArrayRef<Attribute> values) {
  if (llvm::all_equal(values))
    return builder.create<ConstantOp>(location, type, values.front());
  return builder.create<PerRankOp>(location, type, builder.getArrayAttr(values));
}

Value SpmdBuilder::perRank(ArrayRef<int64_t> values) {
  SmallVector<Attribute> all;
  for (int64_t value : values)
    all.push_back(builder.getI64IntegerAttr(value));
  return perRank(builder.getI64Type(), all);
}

Value SpmdBuilder::perRank(ArrayRef<double> values) {
  SmallVector<Attribute> all;
  for (double value : values)
    all.push_back(builder.getF64FloatAttr(value));
  return perRank(builder.getF64Type(), all);
}

Type intsType(MLIRContext *context) { return ListType::get(context, IntegerType::get(context, 64)); }

Attribute intsAttr(Builder &b, ArrayRef<int64_t> values) {
  SmallVector<Attribute> items;
  for (int64_t value : values)
    items.push_back(b.getI64IntegerAttr(value));
  return b.getArrayAttr(items);
}

Value SpmdBuilder::ints(ArrayRef<int64_t> values) {
  return builder.create<ConstantOp>(location, intsType(builder.getContext()), intsAttr(builder, values));
}

Value SpmdBuilder::pick(Value from, unsigned dim, const std::vector<Ranges> &ranges, bool copies) {
  Value axis = constant(dim);
  if (!copies && llvm::all_of(ranges, [](const Ranges &own) { return own.size() <= 2; })) {
    SmallVector<int64_t> offsets, sizes;
    for (const Ranges &own : ranges) {
      offsets.push_back(own.empty() ? 0 : own[0]);
      sizes.push_back(own.empty() ? 0 : own[1]);
    }
    return call("aten.narrow", {from, axis, perRank(offsets), perRank(sizes)});
  }
  SmallVector<Attribute> lists;
  for (const Ranges &own : ranges)
    lists.push_back(intsAttr(builder, own));
  return call("spmd.shard", {from, axis, perRank(intsType(builder.getContext()), lists)});
}

Value SpmdBuilder::call(StringRef name, ValueRange operands) {
  return OperatorOp::create(builder, builder.getUnknownLoc(), name, operands,
                            UnknownTensorType::get(builder.getContext()))
      ->getResult(0);
}

Value SpmdBuilder::laidOut(Value exchanged, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto layout = tensor ? dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
  if (!layout || layout.getStrides().empty())
    return exchanged;
  SmallVector<int64_t> strides;
  for (const std::string &stride : layout.getStrides())
    strides.push_back(SymbolicDim::parse(stride)->evaluate(sizes).value_or(0));
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, strides.size())), back(order);
  llvm::stable_sort(order, [&](int64_t left, int64_t right) { return strides[left] > strides[right]; });
  if (llvm::is_sorted(order))
    return exchanged;
  for (auto [place, dim] : llvm::enumerate(order))
    back[dim] = place;
  Value none = builder.create<ConstantOp>(location, builder.getI64Type(), builder.getI64IntegerAttr(0));
  Value ordered = call("aten.contiguous", {call("aten.permute", {exchanged, ints(order)}), none});
  return call("aten.permute", {ordered, ints(back)});
}

} // namespace cleave
