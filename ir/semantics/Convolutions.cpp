//===- Convolutions.cpp - Convolutions and their workspace ----------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace cleave {

static bool isTransposed(OperatorOp op) {
  return op.getName().starts_with("aten.conv_transpose") || constantInt(op, "transposed").value_or(0);
}

static double convolutionFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto weight = shapes.shapeOf(op->getOperand(1));
  if (!weight || weight->empty())
    return 0;
  // Weight [out, in/groups, k…]: an output element takes in/groups·k… products; transposed: an input element
  // out/groups·k….
  double taps = 1;
  for (int64_t size : ArrayRef<int64_t>(*weight).drop_front())
    taps *= size;
  return 2.0 * taps * shapes.elementsOf(isTransposed(op) ? op->getOperand(0) : op->getResult(0));
}

static bool isStrided(OperatorOp op) {
  auto stride = constantInts(op, "stride");
  return stride && llvm::any_of(*stride, [](int64_t step) { return step > 1; });
}

/// True if oneDNN multiplies input[b, c, …] by weight[o, c, 1, …] without a copy: pointwise, of stride one.
static bool isInPlace(OperatorOp op, ArrayRef<int64_t> input, ArrayRef<int64_t> weight) {
  return llvm::all_of(weight.drop_front(2), [](int64_t size) { return size == 1; }) &&
         weight[1] == input[1] && !isStrided(op);
}

static std::optional<GemmShape> convolutionGemm(OperatorOp op, const ExampleShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0)), weight = shapes.shapeOf(op->getOperand(1));
  auto result = shapes.shapeOf(op->getResult(0));
  double elements = shapes.elementsOf(op->getResult(0)), flops = convolutionFlops(op, shapes);
  if (!input || !weight || isTransposed(op) || input->size() < 3 || input->size() != weight->size() ||
      flops == 0)
    return std::nullopt;
  double groups = double((*input)[1]) / (*weight)[1], columns = (*result)[1] / groups;
  double count = (*result)[0] * groups, rows = elements / count / columns;
  const GemmKind kind = isInPlace(op, *input, *weight) ? GemmKind::Pointwise
                        : isStrided(op)                ? GemmKind::Strided
                                                       : GemmKind::Convolution;
  return GemmShape{kind, count, rows, columns, flops / (2 * elements)};
}

/// Channels in one oneDNN block: a vector of AVX-512.
static constexpr int64_t kBlock = 16;
/// Bytes per thread that oneDNN's channels-last kernels use.
static constexpr int64_t kThreadBytes = 6 << 10;

namespace {
/// Workspace of a convolution on a CPU, in bytes: an upper bound, close for the 110 convolutions (kernels,
/// groups, strides, layouts, threads) that were measured with ATen 2.11 and oneDNN 3.10 on AVX-512.
class ConvolutionMemory {
public:
  /// Of a convolution of `input` with `weight` to `result`; `op` has its arguments. Nothing if shapes are
  /// unknown.
  static std::optional<ConvolutionMemory> of(OperatorOp op, Value input, Value weight, Value result,
                                             const ExampleShapes &shapes, int64_t threads);
  int64_t workspace() const;
  /// Of the gradients of input and weight, beside these.
  int64_t ofInputGradient() const;
  int64_t ofWeightGradient() const;

private:
  enum class Layout { RowMajor, ChannelsLast, Other };
  using Shape = SmallVector<int64_t>;

  static Layout layoutOf(Value value, const ExampleShapes &shapes);
  bool isOneDnns() const;
  int64_t ofColumns() const;
  int64_t ofBlocks() const;
  int64_t ofBlocks(int64_t block) const;
  int64_t ofPlain() const;
  int64_t ofChannelsLast() const;
  int64_t ofTransposed() const;

  bool isPointwise() const { return points(weight) == 1; }
  /// True if every point of the input is multiplied without a copy.
  bool isMatrix() const { return isPointwise() && !isStrided && points(input) == points(result); }
  /// True if the channels do not fill one block, and are read as they are.
  bool isFirst() const { return groups == 1 && input[1] < kBlock && !isPointwise(); }
  bool isDepthwise() const { return groups > 1 && groups == input[1] && groups == result[1]; }
  /// Padding before a row; a padding given as a word is "valid" or "same".
  int64_t border() const {
    return !padding.empty() ? padding.back() : points(input) == points(result) ? weight.back() / 2 : 0;
  }
  /// Number of points of an image, or of a kernel.
  static int64_t points(const Shape &shape) { return product(ArrayRef(shape).drop_front(2)); }
  static int64_t product(ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  }
  int64_t bytes(const Shape &shape) const { return product(shape) * element; }
  /// Bytes of the image with so many channels.
  int64_t bytes(const Shape &image, int64_t channels) const {
    return image[0] * channels * points(image) * element;
  }
  /// Bytes of the im2col columns of one image and one group: for each point, the elements under the kernel.
  int64_t columns() const {
    return weight[1] * points(weight) * points(isTransposed ? input : result) * element;
  }

  Shape input, weight, result;
  SmallVector<int64_t> padding;
  int64_t element = 0, groups = 1, threads = 1;
  bool isTransposed = false, isStrided = false, isDilated = false, isFloat = false, isNarrow = false;
  Layout layout = Layout::RowMajor;
};
} // namespace

ConvolutionMemory::Layout ConvolutionMemory::layoutOf(Value value, const ExampleShapes &shapes) {
  auto layout = dyn_cast_or_null<LayoutAttr>(cast<RankedTensorType>(value.getType()).getEncoding());
  auto shape = shapes.shapeOf(value);
  if (!layout || layout.getStrides().empty() || shape->size() < 3)
    return Layout::RowMajor;
  auto strideOf = [&](size_t dim) -> std::optional<int64_t> {
    auto stride = SymbolicDim::parse(layout.getStrides()[dim]);
    return stride ? stride->evaluate(shapes.sizes()) : std::nullopt;
  };
  // ATen makes sequences row-major in any case.
  const bool hasChannelsLast =
      shape->size() > 3 && strideOf(1) == 1 && strideOf(shape->size() - 1) == (*shape)[1];
  return hasChannelsLast ? Layout::ChannelsLast : Layout::Other;
}

std::optional<ConvolutionMemory> ConvolutionMemory::of(OperatorOp op, Value inputValue, Value weightValue,
                                                       Value resultValue, const ExampleShapes &shapes,
                                                       int64_t threads) {
  auto input = shapes.shapeOf(inputValue), weight = shapes.shapeOf(weightValue),
       result = shapes.shapeOf(resultValue);
  if (!input || !weight || !result || input->size() != result->size() || weight->size() < 3)
    return std::nullopt;
  ConvolutionMemory memory;
  memory.layout = layoutOf(inputValue, shapes);
  // A single image may have no batch dimension.
  for (auto *shape : {&*input, &*result})
    if (shape->size() + 1 == weight->size())
      shape->insert(shape->begin(), 1);
  if (input->size() != weight->size() || product(*input) == 0 || product(*weight) == 0)
    return std::nullopt;
  const Type type = cast<RankedTensorType>(inputValue.getType()).getElementType();
  memory.isFloat = type.isF32();
  memory.isNarrow = type.isBF16() || type.isF16();
  memory.element = elementBytes(type);
  memory.isTransposed = cleave::isTransposed(op);
  memory.isStrided = cleave::isStrided(op);
  auto dilation = constantInts(op, "dilation");
  memory.isDilated = dilation && llvm::any_of(*dilation, [](int64_t step) { return step > 1; });
  memory.padding = constantInts(op, "padding").value_or(SmallVector<int64_t>());
  memory.groups = std::max<int64_t>(1, (memory.isTransposed ? *result : *input)[1] / (*weight)[1]);
  memory.threads = threads;
  memory.input = std::move(*input);
  memory.weight = std::move(*weight);
  memory.result = std::move(*result);
  return memory;
}

/// ATen's choice (ConvParams::use_mkldnn): its own kernel for small tensors, and for pointwise convolutions
/// on one thread.
bool ConvolutionMemory::isOneDnns() const {
  if (!isFloat)
    return isNarrow;
  const int64_t across = weight.back(), down = weight.size() > 3 ? weight[weight.size() - 2] : 1;
  const bool isLarge = groups > 1 || (across > 3 && down > 3) || input[0] > 1 ||
                       product(ArrayRef(input).take_front(4)) > 20480;
  return isLarge && (isStrided || isDilated || input[0] >= 16 || across != 1 || down != 1 || threads > 1);
}

/// ATen's own kernel: a product with columns, of all images at once unless transposed or dilated; groups are
/// concatenated at the end.
int64_t ConvolutionMemory::ofColumns() const {
  const int64_t images = isTransposed || isDilated ? 1 : input[0];
  return (isMatrix() && !isTransposed ? 0 : images * columns()) + (groups > 1 ? bytes(result) : 0) +
         (layout == Layout::ChannelsLast ? bytes(weight) : 0);
}

/// Input and weight are copied into blocks of channels; after these are freed, the result is copied back.
int64_t ConvolutionMemory::ofBlocks(int64_t block) const {
  auto rounded = [&](int64_t channels) -> int64_t { return llvm::alignTo(channels, block); };
  const int64_t after = bytes(result, rounded(result[1]));
  int64_t before = after - bytes(result);
  if (!isFirst())
    before += bytes(input, rounded(input[1]));
  if (isDepthwise())
    before += rounded(groups) * points(weight) * element;
  else
    before += rounded(weight[0]) * (groups == 1 && !isFirst() ? rounded(weight[1]) : weight[1]) *
              points(weight) * element;
  // Per thread, for one image: the points that a strided kernel uses, and sums of narrow dtypes.
  if (groups == 1 && isPointwise() && isStrided)
    before += threads * rounded(input[1]) * points(result) * element;
  if (groups == 1 && isPointwise() && isNarrow)
    before += threads * rounded(result[1]) * points(result) * 4;
  return std::max(before, after);
}

/// Columns, in parts that stay in a core's cache: some channels, or points of one channel. The result exists
/// twice.
int64_t ConvolutionMemory::ofPlain() const {
  constexpr int64_t kPointsBytes = 1 << 20, kChannelsBytes = 700 << 10;
  const int64_t part = isDepthwise() ? kPointsBytes : std::max(kChannelsBytes, columns() / weight[1]);
  return std::max(isMatrix() ? 0 : threads * std::min(columns(), part), bytes(result));
}

int64_t ConvolutionMemory::ofBlocks() const {
  // The kernels need borders that fit into the points that they compute at a time.
  const int64_t widest = isDepthwise() ? 6 : isFirst() ? 28 : 14;
  if (border() > widest)
    return ofPlain();
  if (groups == 1 || isDepthwise())
    return ofBlocks(kBlock);
  for (int64_t block = kBlock; block >= 4; block /= 2)
    if (weight[1] % block == 0 && result[1] / groups % block == 0)
      return ofBlocks(block);
  return ofPlain();
}

/// Images are not copied, but the weight is copied into this layout, and from there into blocks.
int64_t ConvolutionMemory::ofChannelsLast() const {
  const bool isInLayout = isPointwise() || weight[1] == 1;
  return (isInLayout ? 1 : 2) * bytes(weight) + threads * kThreadBytes;
}

/// The result is made channels last, copied, and copied into place; threads copy an image with its borders.
/// With stride one it is a convolution, to whose result the bias is added.
int64_t ConvolutionMemory::ofTransposed() const {
  if (!isStrided)
    return bytes(result) + ofBlocks();
  int64_t padded = input[1] * element;
  for (size_t dim = 2; dim < input.size(); ++dim)
    padded *= input[dim] + weight[dim];
  return std::max(bytes(input) + bytes(weight) + threads * (padded + kThreadBytes), 2 * bytes(result));
}

int64_t ConvolutionMemory::workspace() const {
  const bool keepsLayout = layout == Layout::ChannelsLast && !isTransposed;
  const int64_t copy = layout == Layout::RowMajor || keepsLayout ? 0 : bytes(input);
  if (!isOneDnns())
    return copy + ofColumns();
  return copy + (isTransposed ? ofTransposed() : keepsLayout ? ofChannelsLast() : ofBlocks());
}

static int64_t convolutionWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t threads) {
  auto memory =
      ConvolutionMemory::of(op, op->getOperand(0), op->getOperand(1), op->getResult(0), shapes, threads);
  return memory ? memory->workspace() : 0;
}

/// Gradient of the result and weight are copied into blocks; the gradient of the input is made in blocks, and
/// copied. Close for most of 25 convolutions that were measured in the same way; up to a third too low or too
/// high for depthwise and transposed ones, groups, and images that are channels last.
int64_t ConvolutionMemory::ofInputGradient() const {
  auto rounded = [](int64_t channels) -> int64_t { return llvm::alignTo(channels, kBlock); };
  if (!isOneDnns())
    return isMatrix() ? 0 : columns();
  if (layout == Layout::ChannelsLast)
    return isMatrix() ? 0 : isDepthwise() ? bytes(weight) : 2 * bytes(weight) + threads * kThreadBytes;
  const int64_t blocks = bytes(input, rounded(input[1]));
  const int64_t weights =
      isDepthwise() ? bytes(weight) : rounded(weight[0]) * rounded(weight[1]) * points(weight) * element;
  const int64_t before = bytes(result, rounded(result[1])) + weights + blocks - bytes(input);
  return std::max(before, isStrided ? 2 * blocks : blocks);
}

/// Input and gradient of the result are copied into blocks. Kernels that are too wide for that, and depthwise
/// ones, multiply the columns of an image, with four copies of the gradient.
int64_t ConvolutionMemory::ofWeightGradient() const {
  constexpr int64_t kWidest = 14, kWidestDepthwise = 3, kCopies = 4;
  auto rounded = [](int64_t channels) -> int64_t { return llvm::alignTo(channels, kBlock); };
  if (!isOneDnns())
    return isMatrix() ? 0 : columns();
  const bool isNarrowDepthwise = isDepthwise() && weight.back() <= kWidestDepthwise && !isDilated;
  if (layout == Layout::ChannelsLast) {
    if (isDepthwise())
      return (isNarrowDepthwise ? 2 : kBlock * kBlock) * bytes(weight);
    return isMatrix() ? (threads > 1 ? threads * bytes(weight) : 0) : 3 * bytes(weight);
  }
  // Threads take images, or, from four on, groups.
  const int64_t buffers = !isDepthwise() ? std::min(threads, input[0]) : threads < 4 ? 1 : threads;
  if ((isDepthwise() && !isNarrowDepthwise) || weight.back() > kWidest)
    return buffers * (columns() + kCopies * bytes(weight));
  const int64_t before = bytes(result, rounded(result[1])) +
                         (isFirst() ? 0 : bytes(input, rounded(input[1]))) +
                         (isPointwise() ? 2 * bytes(weight) : 0);
  return std::max(before, bytes(weight));
}

/// convolution_backward(grad_output, input, weight, …, output_mask): the gradients of input, weight and bias,
/// one after the other. Nothing is known of transposed ones.
static int64_t gradientWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t threads) {
  auto memory =
      ConvolutionMemory::of(op, op->getOperand(1), op->getOperand(2), op->getOperand(0), shapes, threads);
  if (!memory || isTransposed(op))
    return 0;
  auto isMade = [&](unsigned result) { return shapes.bytesOf(op->getResult(result)) > 0; };
  // While the first is made, the second is not there yet.
  const int64_t ofInput =
      isMade(0) ? memory->ofInputGradient() - (isMade(1) ? shapes.bytesOf(op->getResult(1)) : 0) : 0;
  return std::max({int64_t(0), ofInput, isMade(1) ? memory->ofWeightGradient() : 0});
}

static double gradientFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto weight = shapes.shapeOf(op->getOperand(2));
  if (!weight || weight->empty())
    return 0;
  double taps = 1;
  for (int64_t size : ArrayRef<int64_t>(*weight).drop_front())
    taps *= size;
  const double product =
      2.0 * taps * shapes.elementsOf(isTransposed(op) ? op->getOperand(1) : op->getOperand(0));
  return product * ((shapes.bytesOf(op->getResult(0)) > 0) + (shapes.bytesOf(op->getResult(1)) > 0));
}

namespace {
/// The dimensions of a convolution's tensors: input[b, g·c, …], weight[g·o, c, …] → [b, g·o, …] in g groups;
/// transposed, the weight is [g·c, o, …].
struct ConvolutionDims {
  /// Factors of all dimensions.
  OpShardingRule rule;
  OpShardingRule::Dims input, weight, result;
  /// Channels of the result, those of all groups.
  OpShardingRule::Dim resultChannels;
  /// Factors: the batch, and the channels of a group.
  unsigned batch, inChannels, outChannels;

  /// Nothing if shapes are not known, or the input has no batch.
  /// \param inKind  kind of the input's channels.
  static std::optional<ConvolutionDims> of(OperatorOp op, Value input, Value weight, Value result,
                                           FactorKind inKind, const ExampleShapes &shapes);
};
} // namespace

std::optional<ConvolutionDims> ConvolutionDims::of(OperatorOp op, Value input, Value weight, Value result,
                                                   FactorKind inKind, const ExampleShapes &shapes) {
  auto inputShape = shapes.shapeOf(input), weightShape = shapes.shapeOf(weight),
       resultShape = shapes.shapeOf(result);
  // An input with one dimension less than the weight has no batch.
  if (!inputShape || !weightShape || !resultShape || inputShape->size() != weightShape->size() ||
      inputShape->size() != resultShape->size() || inputShape->size() < 3 || (*weightShape)[1] == 0)
    return std::nullopt;
  const bool transposed = isTransposed(op);
  const int64_t groups = (transposed ? *resultShape : *inputShape)[1] / (*weightShape)[1];
  if (groups == 0 || (*inputShape)[1] % groups || (*resultShape)[1] % groups)
    return std::nullopt;
  ConvolutionDims dims;
  OpShardingRule &rule = dims.rule;
  rule.operands.resize(op->getNumOperands());
  dims.batch = rule.addFactor(FactorKind::PassThrough, (*inputShape)[0]);
  dims.inChannels = rule.addFactor(inKind, (*inputShape)[1] / groups);
  dims.outChannels = rule.addFactor(FactorKind::PassThrough, (*resultShape)[1] / groups);
  OpShardingRule::Dim inputChannels{dims.inChannels};
  dims.resultChannels = {dims.outChannels};
  if (groups > 1) {
    rule.channelGroups = rule.addFactor(FactorKind::PassThrough, groups);
    inputChannels.insert(inputChannels.begin(), *rule.channelGroups);
    dims.resultChannels.insert(dims.resultChannels.begin(), *rule.channelGroups);
  }
  dims.input = {{dims.batch}, inputChannels};
  dims.result = {{dims.batch}, dims.resultChannels};
  dims.weight = transposed ? OpShardingRule::Dims{inputChannels, {dims.outChannels}}
                           : OpShardingRule::Dims{dims.resultChannels, {dims.inChannels}};
  for (size_t i = 2; i < inputShape->size(); ++i) {
    dims.input.push_back(rule.addDim(FactorKind::Halo, (*inputShape)[i]));
    dims.weight.push_back(rule.addDim(FactorKind::NeedsReplication, (*weightShape)[i]));
    dims.result.push_back(rule.addDim(FactorKind::Halo, (*resultShape)[i]));
  }
  return dims;
}

static std::optional<OpShardingRule> convolution(OperatorOp op, const ExampleShapes &shapes) {
  auto dims = ConvolutionDims::of(op, op->getOperand(0), op->getOperand(1), op->getResult(0),
                                  FactorKind::Reduce, shapes);
  if (!dims)
    return std::nullopt;
  OpShardingRule rule = std::move(dims->rule);
  rule.operands[0] = dims->input;
  rule.operands[1] = dims->weight;
  if (shapes.shapeOf(op.getArgument("bias")))
    rule.operands[2] = {dims->resultChannels};
  rule.results = {dims->result};
  return rule;
}

/// convolution_backward(grad_output, input, weight, …) → like input, weight, bias. The gradient of the input
/// sums channels of the result, those of weight and bias sum samples.
static std::optional<OpShardingRule> convolutionBackward(OperatorOp op, const ExampleShapes &shapes) {
  auto dims = ConvolutionDims::of(op, op->getOperand(1), op->getOperand(2), op->getOperand(0),
                                  FactorKind::PassThrough, shapes);
  if (!dims)
    return std::nullopt;
  OpShardingRule rule = std::move(dims->rule);
  rule.operands[0] = dims->result;
  rule.operands[1] = dims->input;
  rule.operands[2] = dims->weight;
  rule.results = {dims->input, dims->weight, {dims->resultChannels}};
  rule.partialResults = {{0, dims->outChannels}, {1, dims->batch}, {2, dims->batch}};
  return rule;
}

void addConvolutions(SemanticsTable &table) {
  table.add({"aten._convolution", "aten.convolution", "aten._convolution_mode", "aten.conv1d", "aten.conv2d",
             "aten.conv3d", "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"},
            {.isContraction = true,
             .isSumOverReduceFactors = true,
             .addend = "bias",
             .hasStaticResultTypes = true,
             .groups = "groups",
             .flops = convolutionFlops,
             .gemm = convolutionGemm,
             .workspaceBytes = convolutionWorkspace,
             .shardingRule = convolution});
  table.add({"aten.convolution_backward"}, {.isSumOverReduceFactors = true,
                                            .hasStaticResultTypes = true,
                                            .sizes = "bias_sizes",
                                            .sizesResult = 2,
                                            .groups = "groups",
                                            .flops = gradientFlops,
                                            .workspaceBytes = gradientWorkspace,
                                            .shardingRule = convolutionBackward});
}

} // namespace cleave
