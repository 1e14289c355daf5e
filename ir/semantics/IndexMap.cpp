//===- IndexMap.cpp - Index maps of one dimension -------------------------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

namespace {
/// The dimension of argument `dim`, and the operands' sizes along it.
struct Along {
  unsigned dim;
  SmallVector<int64_t> sizes;

  static std::optional<Along> of(OperatorOp op, const ExampleShapes &shapes);
};
} // namespace

std::optional<Along> Along::of(OperatorOp op, const ExampleShapes &shapes) {
  auto named = constantInt(op, "dim");
  if (!named)
    return std::nullopt;
  Along along;
  size_t rank = 0;
  for (auto [value, shape] : llvm::zip(flatOperands(op), operandShapes(op, shapes))) {
    // Scalar arguments come after the tensors.
    if (!isTensorLike(value.getType()))
      break;
    if (!shape)
      return std::nullopt;
    rank = rank ? rank : shape->size();
    auto dim = dimensionAt(*named, rank);
    if (shape->size() != rank || !dim)
      return std::nullopt;
    along.dim = *dim;
    along.sizes.push_back((*shape)[along.dim]);
  }
  return along.sizes.empty() ? std::nullopt : std::optional(along);
}

/// `count` indices of the first operand, from `begin` on.
static std::vector<IndexMap::Source> range(int64_t begin, int64_t count, int64_t step = 1) {
  std::vector<IndexMap::Source> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back({0, begin + i * step});
  return result;
}

std::optional<IndexMap> concatIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto along = Along::of(op, shapes);
  if (!along)
    return std::nullopt;
  IndexMap rule{along->dim, {{}}};
  for (auto [operand, size] : llvm::enumerate(along->sizes))
    for (int64_t i = 0; i < size; ++i)
      rule.results[0].push_back({unsigned(operand), i});
  return rule;
}

/// Sizes of the pieces, in the form that each operator has.
static std::optional<SmallVector<int64_t>> pieceSizes(OperatorOp op, int64_t size) {
  SmallVector<int64_t> sizes;
  auto cutBy = [&](int64_t piece) {
    for (int64_t at = 0; at < size; at += piece)
      sizes.push_back(std::min(piece, size - at));
  };
  if (auto given = constantInts(op, "split_sizes"))
    return given;
  if (auto given = constantInts(op, "split_size"))
    return given;
  if (auto piece = constantInt(op, "split_size"); piece && *piece > 0)
    cutBy(*piece);
  else if (auto chunks = constantInt(op, "chunks"); chunks && *chunks > 0 && size > 0)
    cutBy(llvm::divideCeil(size, *chunks));
  else if (auto sections = constantInt(op, "sections"); sections && *sections > 0)
    for (int64_t i = 0; i < *sections; ++i)
      sizes.push_back(size / *sections + (i < size % *sections));
  else
    return std::nullopt;
  return sizes;
}

std::optional<IndexMap> splitIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto along = Along::of(op, shapes);
  auto sizes = along ? pieceSizes(op, along->sizes[0]) : std::nullopt;
  if (!sizes || std::accumulate(sizes->begin(), sizes->end(), int64_t(0)) != along->sizes[0])
    return std::nullopt;
  IndexMap rule{along->dim, {}};
  int64_t at = 0;
  for (int64_t size : *sizes) {
    rule.results.push_back(range(at, size));
    at += size;
  }
  return rule;
}

std::optional<IndexMap> sliceIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto along = Along::of(op, shapes);
  auto to = shapes.shapeOf(op->getResult(0));
  if (!along || !to || to->size() <= along->dim)
    return std::nullopt;
  int64_t size = along->sizes[0], step = constantInt(op, "step").value_or(1);
  auto start = constantInt(op, "start");
  // An absent start is the beginning; any other must be constant.
  if (Value given = op.getArgument("start"); !start && !isa<NoneType>(given.getType()))
    return std::nullopt;
  int64_t begin = std::clamp<int64_t>(start.value_or(0) < 0 ? *start + size : start.value_or(0), 0, size);
  return IndexMap{along->dim, {range(begin, (*to)[along->dim], step)}};
}

std::optional<IndexMap> flipIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto dims = constantInts(op, "dims");
  auto dim = shape && dims && dims->size() == 1 ? dimensionAt((*dims)[0], shape->size()) : std::nullopt;
  if (!dim)
    return std::nullopt;
  int64_t size = (*shape)[*dim];
  return IndexMap{*dim, {range(size - 1, size, -1)}};
}

std::optional<IndexMap> rollIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto dims = constantInts(op, "dims"), shifts = constantInts(op, "shifts");
  auto dim = shape && dims && dims->size() == 1 ? dimensionAt((*dims)[0], shape->size()) : std::nullopt;
  if (!dim || !shifts || shifts->size() != 1)
    return std::nullopt;
  int64_t size = (*shape)[*dim];
  IndexMap rule{*dim, {range(0, size)}};
  for (int64_t i = 0; i < size; ++i)
    rule.results[0][i].position = (((i - (*shifts)[0]) % size) + size) % size;
  return rule;
}

std::optional<IndexMap> lookupIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  SmallVector<Value> operands = flatOperands(op);
  auto isTensor = [&](Value operand) { return isTensorLike(operand.getType()); };
  if (!shape || llvm::count_if(operands, isTensor) != 2)
    return std::nullopt;
  unsigned dim = std::find_if(operands.begin() + 1, operands.end(), isTensor) - operands.begin() - 1;
  auto numbers = operands[dim + 1].getDefiningOp<ParamOp>();
  auto type = numbers ? dyn_cast<RankedTensorType>(numbers.getType()) : RankedTensorType();
  if (!type || type.getRank() != 1 || !type.getElementType().isInteger(64) || !numbers.getIntegers() ||
      dim >= shape->size())
    return std::nullopt;
  IndexMap rule{dim, {{}}};
  ArrayRef<int64_t> values = *numbers.getIntegers();
  for (int64_t number : values) {
    int64_t size = (*shape)[dim], position = number < 0 ? number + size : number;
    if (position < 0 || position >= size)
      return std::nullopt;
    rule.results[0].push_back({0, position});
  }
  return rule;
}

std::optional<IndexMap> interleaveIndexMap(OperatorOp op, const ExampleShapes &shapes) {
  auto along = Along::of(op, shapes);
  auto repeats = constantInt(op, "repeats");
  if (!along || !repeats)
    return std::nullopt;
  IndexMap rule{along->dim, {{}}};
  for (int64_t i = 0; i < along->sizes[0] * *repeats; ++i)
    rule.results[0].push_back({0, i / *repeats});
  return rule;
}

} // namespace cleave
