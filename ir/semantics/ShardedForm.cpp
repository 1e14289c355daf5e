//===- ShardedForm.cpp - A call on a part of its dimension ----------------===//
#include "ir/semantics/ShardedForm.h"
#include "ir/Cleave.h"
#include <limits>

using namespace mlir;

namespace cleave {

SmallVector<Value> ShardedForm::calls(StringRef irName, ValueRange operands, unsigned results) const {
  const SmallVector<Type> types(results, UnknownTensorType::get(builder.getContext()));
  return llvm::to_vector_of<Value>(
      OperatorOp::create(builder, location, irName, operands, types)->getResults());
}

Value ShardedForm::integer(int64_t value) const {
  return builder.create<ConstantOp>(location, builder.getI64Type(), builder.getI64IntegerAttr(value));
}

Value ShardedForm::boolean(bool value) const {
  return builder.create<ConstantOp>(location, builder.getI1Type(), builder.getBoolAttr(value));
}

Value ShardedForm::none() const {
  return builder.create<ConstantOp>(location, builder.getNoneType(), builder.getUnitAttr());
}

Value ShardedForm::integers(ArrayRef<int64_t> values) const {
  return builder.create<ConstantOp>(location, ListType::get(builder.getContext(), builder.getI64Type()),
                                    builder.getI64ArrayAttr(values));
}

Value ShardedForm::perRank(ArrayRef<int64_t> values) const {
  if (llvm::all_equal(values))
    return integer(values.front());
  return builder.create<PerRankOp>(location, builder.getI64Type(), builder.getI64ArrayAttr(values));
}

Value ShardedForm::gathered(Value part, int64_t dim) const {
  SmallVector<int64_t> pieces;
  for (int64_t rank = 0; rank < int64_t(counts.size()); ++rank)
    pieces.append({rank, 0, 1});
  return call("spmd.all_gather", {part, integer(dim), integers(pieces)});
}

/// The least and the greatest number that a tensor of integers can hold.
static std::pair<int64_t, int64_t> limitsOf(Value integers) {
  auto type = dyn_cast<RankedTensorType>(integers.getType());
  if (type && type.getElementType().isInteger(32))
    return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

Value ShardedForm::ownIndices(Value indices, std::optional<int64_t> ignored, int64_t none) const {
  const auto [least, most] = limitsOf(indices);
  SmallVector<int64_t> firsts(counts.size(), 0), lasts;
  firsts.front() = least;
  for (int64_t count : counts)
    lasts.push_back(count - 1);
  lasts.back() = most;
  Value local = call("aten.sub.Scalar", {indices, perRank(begins), integer(1)});
  Value isOther =
      call("aten.ne.Tensor", {local, call("aten.clamp", {local, perRank(firsts), perRank(lasts)})});
  if (ignored)
    isOther = call("aten.logical_or", {isOther, call("aten.eq.Scalar", {indices, integer(*ignored)})});
  return call("aten.masked_fill.Scalar", {local, isOther, integer(none)});
}

} // namespace cleave
