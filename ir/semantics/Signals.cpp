//===- Signals.cpp - Fourier transforms, complex views, windows, shuffles -===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "llvm/ADT/SmallBitVector.h"
#include <cmath>

using namespace mlir;

namespace cleave {

/// A rule of one tensor operand and one result whose leading dimensions are the same. The first `passing` of
/// them pass through, all others are needed whole.
static std::optional<OpShardingRule> passesLeading(OperatorOp op, const ExampleShapes &shapes,
                                                   size_t passing) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to || from->size() < passing || to->size() < passing)
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (auto [i, size] : llvm::enumerate(*from)) {
    const bool passes = i < passing;
    if (passes && (*to)[i] != size)
      return std::nullopt;
    rule.operands[0].push_back(
        rule.addDim(passes ? FactorKind::PassThrough : FactorKind::NeedsReplication, size));
  }
  result.append(rule.operands[0].begin(), rule.operands[0].begin() + passing);
  for (int64_t size : ArrayRef<int64_t>(*to).drop_front(passing))
    result.push_back(rule.addDim(FactorKind::NeedsReplication, size));
  return rule;
}

/// All dimensions but `dims` pass through. These may have other sizes in the result.
static std::optional<OpShardingRule> passesOthers(OperatorOp op, const ExampleShapes &shapes,
                                                  ArrayRef<int64_t> dims) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to || from->size() != to->size())
    return std::nullopt;
  llvm::SmallBitVector isWhole(from->size());
  for (int64_t named : dims)
    if (auto dim = dimensionAt(named, from->size()))
      isWhole.set(*dim);
    else
      return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (unsigned i = 0; i < from->size(); ++i) {
    const int64_t size = (*from)[i];
    if (!isWhole[i] && (*to)[i] != size)
      return std::nullopt;
    rule.operands[0].push_back(
        rule.addDim(isWhole[i] ? FactorKind::NeedsReplication : FactorKind::PassThrough, size));
    result.push_back(isWhole[i] ? rule.addDim(FactorKind::NeedsReplication, (*to)[i])
                                : rule.operands[0].back());
  }
  return rule;
}

//===- Fourier transforms -------------------------------------------------===//

/// The dimensions that a transform mixes: `dim`; without it the last ones for which `s` has a size, or all.
/// Nothing if they are not constant.
static std::optional<SmallVector<int64_t>> transformedDims(OperatorOp op, size_t rank) {
  if (auto dim = constantInt(op, "dim"))
    return SmallVector<int64_t>{*dim};
  if (auto dims = constantInts(op, "dim"))
    return dims;
  Value dims = op.getArgument("dim"), sizes = op.getArgument("s");
  if (!dims || !isa<NoneType>(dims.getType()))
    return std::nullopt;
  auto last = constantInts(op, "s");
  if (sizes && !isa<NoneType>(sizes.getType()) && !last)
    return std::nullopt;
  const int64_t count = last ? last->size() : rank;
  SmallVector<int64_t> named;
  for (int64_t i = 1; i <= count; ++i)
    named.push_back(-i);
  return named;
}

static std::optional<OpShardingRule> transforms(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  auto dims = from ? transformedDims(op, from->size()) : std::nullopt;
  return dims ? passesOthers(op, shapes, *dims) : std::nullopt;
}

/// 5 n log2(n) for each transform of n points (Cooley and Tukey 1965), real or complex.
static double perTransform(double elements, double points) {
  return 5 * elements * std::log2(std::max(points, 2.0));
}

static double transformFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  auto dims = from ? transformedDims(op, from->size()) : std::nullopt;
  const double elements = std::max(shapes.elementsOf(op->getOperand(0)), shapes.elementsOf(op->getResult(0)));
  if (!to || !dims || from->size() != to->size())
    return elements;
  double points = 1;
  for (int64_t named : *dims)
    if (auto dim = dimensionAt(named, to->size()))
      points *= std::max((*from)[*dim], (*to)[*dim]);
  return perTransform(elements, points);
}

/// signal[b, t] or [t], window[w] → [b, f, n] or [f, n], with a last dimension of 2 if it is not complex.
static std::optional<OpShardingRule> shortTimeTransform(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  return from ? passesLeading(op, shapes, from->size() - std::min<size_t>(from->size(), 1)) : std::nullopt;
}

/// [b, f, n] or [f, n], window[w] → signal[b, t] or [t].
static std::optional<OpShardingRule> inverseShortTimeTransform(OperatorOp op, const ExampleShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  return to ? passesLeading(op, shapes, to->size() - std::min<size_t>(to->size(), 1)) : std::nullopt;
}

/// Transforms of `n_fft` points, as many as the spectrum has columns.
static double shortTimeFlops(OperatorOp op, const ExampleShapes &shapes) {
  const double elements = std::max(shapes.elementsOf(op->getOperand(0)), shapes.elementsOf(op->getResult(0)));
  return perTransform(elements, double(constantInt(op, "n_fft").value_or(2)));
}

//===- Complex numbers ----------------------------------------------------===//

/// complex[…] → real[…, 2], and back.
static std::optional<OpShardingRule> reinterprets(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  return from && to ? passesLeading(op, shapes, std::min(from->size(), to->size())) : std::nullopt;
}

static std::optional<OpShardingRule> passesAll(OperatorOp op, const ExampleShapes &shapes) {
  return passesOthers(op, shapes, {});
}

//===- Windows ------------------------------------------------------------===//

/// x[…, n, …] → […, windows, …, size].
static std::optional<OpShardingRule> unfolds(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  auto named = constantInt(op, "dimension");
  auto dim = from && named ? dimensionAt(*named, from->size()) : std::nullopt;
  if (!dim || !to || to->size() != from->size() + 1)
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (unsigned i = 0; i < from->size(); ++i) {
    const bool isCut = i == *dim;
    rule.operands[0].push_back(
        rule.addDim(isCut ? FactorKind::NeedsReplication : FactorKind::PassThrough, (*from)[i]));
    result.push_back(isCut ? rule.addDim(FactorKind::NeedsReplication, (*to)[i]) : rule.operands[0].back());
  }
  result.push_back(rule.addDim(FactorKind::NeedsReplication, to->back()));
  return rule;
}

/// The rule of an image [b, c, h, w] and of its columns [b, c·k, n], k elements of the kernel for each
/// channel; both without b, too. `isToColumns`: the image is the operand.
static std::optional<OpShardingRule> columns(OperatorOp op, const ExampleShapes &shapes, bool isToColumns) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to)
    return std::nullopt;
  const auto &image = isToColumns ? *from : *to, &column = isToColumns ? *to : *from;
  if (image.size() < 3 || image.size() > 4 || column.size() + 1 != image.size())
    return std::nullopt;
  const size_t channel = image.size() - 3;
  if (image[channel] == 0 || column[channel] % image[channel] || (channel && image[0] != column[0]))
    return std::nullopt;
  OpShardingRule rule;
  OpShardingRule::Dims ofImage, ofColumns;
  if (channel) {
    ofImage.push_back(rule.addDim(FactorKind::PassThrough, image[0]));
    ofColumns.push_back(ofImage.back());
  }
  ofImage.push_back(rule.addDim(FactorKind::PassThrough, image[channel]));
  ofColumns.push_back(ofImage.back());
  ofColumns.back().push_back(rule.addFactor(FactorKind::NeedsReplication, column[channel] / image[channel]));
  for (int64_t size : ArrayRef<int64_t>(image).take_back(2))
    ofImage.push_back(rule.addDim(FactorKind::NeedsReplication, size));
  ofColumns.push_back(rule.addDim(FactorKind::NeedsReplication, column.back()));
  rule.operands.resize(op->getNumOperands());
  rule.operands[0] = isToColumns ? ofImage : ofColumns;
  rule.results.push_back(isToColumns ? ofColumns : ofImage);
  return rule;
}
static std::optional<OpShardingRule> toColumns(OperatorOp op, const ExampleShapes &shapes) {
  return columns(op, shapes, true);
}
static std::optional<OpShardingRule> fromColumns(OperatorOp op, const ExampleShapes &shapes) {
  return columns(op, shapes, false);
}

//===- Shuffles -----------------------------------------------------------===//

/// x[b, g·c, …] → [b, c·g, …]: the channels change places, all else passes through.
static std::optional<OpShardingRule> shufflesChannels(OperatorOp op, const ExampleShapes &shapes) {
  return passesOthers(op, shapes, {1});
}

/// x[…, c·r², h, w] → […, c, h·r, w·r], and back: what is before the last three dimensions passes through.
static std::optional<OpShardingRule> shufflesPixels(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  return from && from->size() >= 3 ? passesLeading(op, shapes, from->size() - 3) : std::nullopt;
}

//===- Searches -----------------------------------------------------------===//

/// sorted[…, n], values[…, m] → […, m]; or sorted[n] for values of any shape. All of `sorted`'s last
/// dimension is searched.
static std::optional<OpShardingRule> searches(OperatorOp op, const ExampleShapes &shapes) {
  Value sequence = op.getArgument("sorted_sequence");
  const bool isSequenceFirst = bool(sequence);
  if (!isSequenceFirst)
    sequence = op.getArgument("boundaries");
  auto sorted = sequence ? shapes.shapeOf(sequence) : std::nullopt;
  auto values = shapes.shapeOf(op.getArgument("self"));
  if (!sorted || !values || sorted->empty() || (sorted->size() > 1 && sorted->size() != values->size()))
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  OpShardingRule::Dims found, searched;
  for (int64_t size : *values)
    found.push_back(rule.addDim(FactorKind::PassThrough, size));
  for (auto [i, size] : llvm::enumerate(ArrayRef<int64_t>(*sorted).drop_back()))
    if (size == (*values)[i])
      searched.push_back(found[i]);
    else
      return std::nullopt;
  searched.push_back(rule.addDim(FactorKind::NeedsReplication, sorted->back()));
  rule.operands[isSequenceFirst ? 1 : 0] = found;
  rule.operands[isSequenceFirst ? 0 : 1] = searched;
  // The order in which the sequence is sorted.
  Value sorter = op.getArgument("sorter");
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
    if (sorter && operand == sorter && shapes.shapeOf(sorter))
      dims = searched;
  rule.results.push_back(found);
  return rule;
}

static double perSearch(OperatorOp op, const ExampleShapes &shapes) {
  Value sequence = op.getArgument("sorted_sequence");
  auto sorted = shapes.shapeOf(sequence ? sequence : op.getArgument("boundaries"));
  const double length = sorted && !sorted->empty() ? double(sorted->back()) : 2;
  return shapes.elementsOf(op->getResult(0)) * std::log2(std::max(length, 2.0));
}

void addSignals(SemanticsTable &table) {
  table.add({"aten.fft_fft", "aten.fft_ifft", "aten.fft_rfft", "aten.fft_irfft", "aten.fft_hfft",
             "aten.fft_ihfft", "aten.fft_fft2", "aten.fft_ifft2", "aten.fft_rfft2", "aten.fft_irfft2",
             "aten.fft_hfft2", "aten.fft_ihfft2", "aten.fft_fftn", "aten.fft_ifftn", "aten.fft_rfftn",
             "aten.fft_irfftn", "aten.fft_hfftn", "aten.fft_ihfftn"},
            {.hasStaticResultTypes = true, .flops = transformFlops, .shardingRule = transforms});
  table.add({"aten._fft_c2c", "aten._fft_r2c", "aten._fft_c2r"},
            {.hasStaticResultTypes = true, .flops = transformFlops, .shardingRule = transforms});
  table.add({"aten.fft_fftshift", "aten.fft_ifftshift"},
            {.hasStaticResultTypes = true, .shardingRule = transforms});
  table.add({"aten.stft"},
            {.hasStaticResultTypes = true, .flops = shortTimeFlops, .shardingRule = shortTimeTransform});
  table.add(
      {"aten.istft"},
      {.hasStaticResultTypes = true, .flops = shortTimeFlops, .shardingRule = inverseShortTimeTransform});
  table.add({"aten.view_as_real", "aten.view_as_complex"}, {.isView = true, .shardingRule = reinterprets});
  table.add({"aten.conj", "aten._conj", "aten.resolve_conj", "aten.conj_physical", "aten._conj_physical"},
            {.isElementwise = true, .hasStaticResultTypes = true, .shardingRule = passesAll});
  table.add({"aten.unfold"}, {.isView = true, .shardingRule = unfolds});
  table.add({"aten.im2col"}, {.hasStaticResultTypes = true, .shardingRule = toColumns});
  table.add({"aten.col2im"}, {.hasStaticResultTypes = true, .shardingRule = fromColumns});
  table.add({"aten.channel_shuffle", "aten.native_channel_shuffle"},
            {.hasStaticResultTypes = true, .shardingRule = shufflesChannels});
  table.add({"aten.pixel_shuffle", "aten.pixel_unshuffle"},
            {.hasStaticResultTypes = true, .shardingRule = shufflesPixels});
  table.add(
      {"aten.searchsorted", "aten.bucketize"},
      {.hasStaticResultTypes = true, .readsSparsely = true, .flops = perSearch, .shardingRule = searches});
}

} // namespace cleave
