//===- CleaveDialect.cpp - Operations of the cleave dialect ---------------===//
#include "ir/Aggregates.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

#include "ir/CleaveDialect.cpp.inc"

#include "ir/CleaveEnums.cpp.inc"

#define GET_OP_CLASSES
#include "ir/CleaveOps.cpp.inc"

namespace cleave {

void CleaveDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "ir/CleaveOps.cpp.inc"
      >();
}

Operation *CleaveDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  return builder.create<ConstantOp>(loc, type, value);
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, CleaveDialect>();
  registerOperatorDialects(registry);
}

StringRef modulePath(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName();
  if (auto fused = dyn_cast<FusedLoc>(location))
    return fused.getLocations().empty() ? StringRef() : modulePath(fused.getLocations().front());
  return {};
}

Phase phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(PhaseAttr::name);
  return phase ? phase.getValue() : Phase::Forward;
}

std::optional<int64_t> stageIndexOf(Operation *op) {
  auto stage = op->getAttrOfType<IntegerAttr>(kStageIndexAttr);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

StringRef modulePath(Operation *op) { return modulePath(op->getLoc()); }

/// True if `type` can be a rank's part of a tensor with this sharding.
static bool isPart(RankedTensorType type, ShardingAttr shard) {
  return type && shard.getDim() < type.getRank() &&
         llvm::is_contained(shard.getExtents(), type.getDimSize(shard.getDim()));
}

LogicalResult ParamOp::verify() {
  if (!isTensorLike(getResult().getType()))
    return emitOpError("found result ") << getResult().getType() << ", expected a tensor";
  if (!llvm::is_contained({"parameter", "buffer", "constant"}, getRole()))
    return emitOpError("found role \"") << getRole() << "\", expected parameter, buffer or constant";
  auto type = dyn_cast<RankedTensorType>(getResult().getType());
  bool canHaveIntegers = type && type.hasStaticShape() && type.getElementType().isInteger(64);
  if (getIntegers() && (!canHaveIntegers || type.getNumElements() != int64_t(getIntegers()->size())))
    return emitOpError("found ") << getIntegers()->size() << " integers for " << getResult().getType();
  bool canHaveNumber =
      getRole() == "constant" && type && type.getRank() == 0 && isa<FloatType>(type.getElementType());
  if (getNumber() && !canHaveNumber)
    return emitOpError("found a number for ")
           << getRole() << " " << getResult().getType()
           << ", expected a constant floating-point tensor without dimensions";
  if (auto shard = getShard(); shard && !isPart(type, *shard))
    return emitOpError("found ") << getResult().getType() << ", expected a rank's part of " << *shard;
  if (getWrapped() && (!type || type.getRank() != 0))
    return emitOpError("found a wrapped number of ")
           << getResult().getType() << ", expected a tensor without dimensions";
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

/// True if `value` can be a constant of `type`. Optional and any take values that fit their element.
static bool fitsType(Attribute value, Type type) {
  if (auto optional = dyn_cast<OptionalType>(type))
    return isa<UnitAttr>(value) || fitsType(value, optional.getElement());
  if (isa<AnyType>(type))
    return true;
  if (isa<NoneType>(type))
    return isa<UnitAttr>(value);
  if (isa<StringType, DeviceType>(type))
    return isa<StringAttr>(value);
  if (isa<NumberType>(type))
    return isa<IntegerAttr, FloatAttr>(value);
  if (auto list = dyn_cast<ListType>(type)) {
    auto items = dyn_cast<ArrayAttr>(value);
    return items && llvm::all_of(items, [&](Attribute item) { return fitsType(item, list.getElement()); });
  }
  if (auto tuple = dyn_cast<TupleType>(type)) {
    auto items = dyn_cast<ArrayAttr>(value);
    return items && items.size() == tuple.size() &&
           llvm::all_of(llvm::zip(items, tuple.getTypes()),
                        [](auto pair) { return fitsType(std::get<0>(pair), std::get<1>(pair)); });
  }
  auto typed = dyn_cast<TypedAttr>(value);
  return typed && typed.getType() == type && type.isIntOrFloat();
}

LogicalResult ConstantOp::verify() {
  if (fitsType(getValue(), getType()))
    return success();
  return emitOpError("found value ") << getValue() << ", which is no constant of type " << getType();
}

/// True if a state of one type can hold a value of the other, which may not be inferred yet.
static bool mayHold(Type state, Type value) {
  if (auto optional = dyn_cast<OptionalType>(state))
    return isa<NoneType, OptionalType>(value) || mayHold(optional.getElement(), value);
  if (auto tensor = dyn_cast<RankedTensorType>(state)) {
    auto other = dyn_cast<RankedTensorType>(value);
    return other ? other.getShape() == tensor.getShape() && other.getElementType() == tensor.getElementType()
                 : isa<UnknownTensorType>(value);
  }
  if (isTensorLike(state))
    return isTensorLike(value);
  // Types inside lists and tuples may be known better in one than in the other.
  return isa<AnyType>(state) ||
         (state.isIntOrFloat() ? state == value : state.getTypeID() == value.getTypeID());
}

/// A state with rows has one named size, and its initial value another size in that dimension alone.
static LogicalResult verifyRows(ReadStateOp op, uint64_t dim) {
  auto type = dyn_cast<RankedTensorType>(op.getType()),
       initial = dyn_cast<RankedTensorType>(op.getInitial().getType());
  auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
  if (!layout || dim >= uint64_t(type.getRank()) || type.getNumDynamicDims() != 1 ||
      !type.isDynamicDim(dim) || !isDimName(layout.getDims()[dim]))
    return op.emitOpError("found ") << op.getType() << ", expected a type with a name in dimension " << dim
                                    << " alone, the batch's";
  if (!initial || !initial.hasStaticShape() || initial.getElementType() != type.getElementType() ||
      initial.getRank() != type.getRank() ||
      llvm::any_of(llvm::seq<uint64_t>(0, type.getRank()),
                   [&](uint64_t i) { return i != dim && initial.getDimSize(i) != type.getDimSize(i); }))
    return op.emitOpError("found initial value ")
           << op.getInitial().getType() << " for rows of a state of type " << type;
  return success();
}

static LogicalResult verifyTypes(ReadStateOp op) {
  if (auto dim = op.getBatchDim())
    return verifyRows(op, *dim);
  auto tensor = dyn_cast<RankedTensorType>(op.getType());
  if (tensor && !tensor.hasStaticShape())
    return op.emitOpError("found ") << op.getType()
                                    << ", expected a type without named sizes, which requests may change";
  if (!mayHold(op.getType(), op.getInitial().getType()))
    return op.emitOpError("found initial value ")
           << op.getInitial().getType() << " for a state of type " << op.getType();
  return success();
}

LogicalResult ReadStateOp::verify() {
  if (getName().empty())
    return emitOpError("found no name, expected the path of an attribute");
  if (failed(verifyTypes(*this)))
    return failure();
  WalkResult others = getOperation()->getParentRegion()->walk(
      [&](ReadStateOp other) { return WalkResult(failure(other != *this && other.getName() == getName())); });
  if (others.wasInterrupted())
    return emitOpError("found two states \"") << getName() << "\"";
  return success();
}

ReadStateOp WriteStateOp::getState() {
  for (ReadStateOp state : getOperation()->getBlock()->getOps<ReadStateOp>())
    if (state.getName() == getName())
      return state;
  return {};
}

LogicalResult WriteStateOp::verify() {
  ReadStateOp state = getState();
  if (!state)
    return emitOpError("found no cleave.read_state \"")
           << getName() << "\" in its block, which holds what it updates";
  if (!mayHold(state.getType(), getValue().getType()))
    return emitOpError("found ") << getValue().getType() << " for a state of type " << state.getType();
  for (WriteStateOp other : getOperation()->getBlock()->getOps<WriteStateOp>())
    if (other != *this && other.getName() == getName())
      return emitOpError("found two updates of \"") << getName() << "\"";
  return success();
}

/// A sum over micro-batches must be of known size.
static LogicalResult verifySum(Operation *op, StringRef name, Type type, std::optional<ShardingAttr> shard) {
  auto tensor = cast<RankedTensorType>(type);
  if (name.empty() || !tensor.hasStaticShape())
    return op->emitOpError("found sum \"") << name << "\" of " << type << ", expected a name and known sizes";
  if (shard && !isPart(tensor, *shard))
    return op->emitOpError("found ") << type << ", expected a rank's part of " << *shard;
  return success();
}

LogicalResult AccumulateOp::verify() { return verifySum(*this, getName(), getValue().getType(), getShard()); }

LogicalResult ReadSumOp::verify() { return verifySum(*this, getName(), getType(), getShard()); }

LogicalResult WriteWeightOp::verify() {
  auto param = getWeight().getDefiningOp<ParamOp>();
  if (!param || param.getRole() != "parameter")
    return emitOpError("found a value that is no weight, expected a cleave.param of role parameter");
  if (cast<RankedTensorType>(getValue().getType()).getShape() !=
      cast<RankedTensorType>(param.getType()).getShape())
    return emitOpError("found ") << getValue().getType() << " for " << param.getType();
  return success();
}

SmallVector<StringRef> optimizerStates(Optimizer optimizer, double momentum) {
  if (optimizer != Optimizer::Sgd)
    return {"exp_avg", "exp_avg_sq"};
  return momentum == 0 ? SmallVector<StringRef>() : SmallVector<StringRef>{"momentum_buffer"};
}

LogicalResult UpdateWeightOp::verify() {
  auto param = getWeight().getDefiningOp<ParamOp>();
  if (!param || param.getRole() != "parameter")
    return emitOpError("found a value that is no weight, expected a cleave.param of role parameter");
  auto weight = cast<RankedTensorType>(param.getType()), gradient = getGradient().getType();
  if (!weight.hasStaticShape() || cast<RankedTensorType>(gradient).getShape() != weight.getShape())
    return emitOpError("found a gradient ") << gradient << " of a weight " << weight;
  const size_t wanted = optimizerStates(getOptimizer(), getMomentum().convertToDouble()).size();
  if (getStates().size() != wanted)
    return emitOpError("found ") << getStates().size() << " states, " << stringifyOptimizer(getOptimizer())
                                 << " has " << wanted;
  return success();
}

LogicalResult PerRankOp::verify() {
  if (getValues().empty())
    return emitOpError("found no values, expected one a rank");
  for (Attribute value : getValues())
    if (!fitsType(value, getType()))
      return emitOpError("found ") << value << ", expected a constant of type " << getType();
  return success();
}

LogicalResult SizeOp::verify() {
  auto dim = SymbolicDim::parse(getExpression());
  if (!dim || dim->isUnknown() || dim->str() != getExpression())
    return emitOpError("found \"") << getExpression()
                                   << "\", expected a canonical size such as \"12*batch + 1\"";
  return success();
}

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// A boundary without users stays, since it may be captured.
void BoundaryOp::getEffects(Effects &effects) {
  if (getResult().use_empty())
    effects.emplace_back(MemoryEffects::Write::get());
}

/// Not dead although it has no results; and no write, which would keep CSE from merging reads around it.
void ObserveOp::getEffects(Effects &effects) { effects.emplace_back(MemoryEffects::Allocate::get()); }

LogicalResult ObserveOp::verify() {
  if (!isTensorLike(getValue().getType()))
    return emitOpError("found ") << getValue().getType() << ", expected a tensor";
  if (getPath().empty() || int64_t(getIndex()) < 0 || int64_t(getCall()) < 0)
    return emitOpError("found call ") << int64_t(getCall()) << " of \"" << getPath() << "\", result "
                                      << int64_t(getIndex()) << "; expected a path, and numbers from 0";
  return success();
}

void ListOp::getEffects(Effects &effects) {
  if (mayChange(getResult()))
    effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getResult(0));
}

void DictOp::getEffects(Effects &effects) {
  if (mayChange(getResult()))
    effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getResult(0));
}

void UnpackOp::getEffects(Effects &effects) {
  if (mayChange(getAggregate()))
    effects.emplace_back(MemoryEffects::Read::get());
}

LogicalResult ListOp::verify() {
  if (isa<ListType>(getType()))
    return success();
  return emitOpError("found result ") << getType() << ", expected a list";
}

OpFoldResult ListOp::fold(FoldAdaptor adaptor) {
  if (mayChange(getResult()) || llvm::is_contained(adaptor.getElements(), Attribute()))
    return {};
  auto value = ArrayAttr::get(getContext(), adaptor.getElements());
  return fitsType(value, getType()) ? OpFoldResult(value) : OpFoldResult();
}

LogicalResult TupleOp::verify() {
  auto type = dyn_cast<TupleType>(getType());
  if (type && type.size() == getElements().size())
    return success();
  return emitOpError("found result ")
         << getType() << ", expected a tuple of " << getElements().size() << " items";
}

LogicalResult DictOp::verify() {
  if (!isa<DictType>(getType()))
    return emitOpError("found result ") << getType() << ", expected a dict";
  if (getElements().size() % 2)
    return emitOpError("found a key without a value");
  return success();
}

LogicalResult UnpackOp::verify() {
  auto tuple = dyn_cast<TupleType>(getAggregate().getType());
  if (tuple && tuple.size() != getNumResults())
    return emitOpError("found ") << getNumResults() << " results for a tuple of " << tuple.size();
  if (!tuple && !isa<ListType, AnyType>(getAggregate().getType()))
    return emitOpError("found ") << getAggregate().getType() << ", expected a tuple or a list";
  return success();
}

LogicalResult UnpackOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) {
  Operation *maker = getAggregate().getDefiningOp();
  if (isa_and_nonnull<TupleOp, ListOp>(maker) && maker->getNumOperands() == getNumResults()) {
    if (isa<ListOp>(maker) && mayChange(getAggregate()))
      return failure();
    llvm::append_range(results, maker->getOperands());
    return success();
  }
  auto items = dyn_cast_or_null<ArrayAttr>(adaptor.getAggregate());
  if (!items || items.size() != getNumResults())
    return failure();
  llvm::append_range(results, items);
  return success();
}

/// True if the region yields `count` values; types are not checked, since an If may refine optionals.
static LogicalResult verifyYields(Operation *op, Region &region, size_t count, StringRef what) {
  auto yield = dyn_cast<YieldOp>(region.front().getTerminator());
  if (!yield)
    return op->emitOpError() << what << " must end in cleave.yield";
  if (yield.getNumOperands() != count)
    return op->emitOpError() << what << " yields " << yield.getNumOperands() << " values, expected " << count;
  return success();
}

LogicalResult IfOp::verify() {
  if (failed(verifyYields(*this, getThenRegion(), getNumResults(), "then region")))
    return failure();
  return verifyYields(*this, getElseRegion(), getNumResults(), "else region");
}

/// Replaces an If with a known condition by the region that runs.
static LogicalResult inlineKnownBranch(IfOp op, PatternRewriter &rewriter) {
  IntegerAttr condition;
  if (!matchPattern(op.getCondition(), m_Constant(&condition)))
    return failure();
  Block &taken = (condition.getValue().isZero() ? op.getElseRegion() : op.getThenRegion()).front();
  Operation *yield = taken.getTerminator();
  rewriter.inlineBlockBefore(&taken, op);
  rewriter.replaceOp(op, yield->getOperands());
  rewriter.eraseOp(yield);
  return success();
}

/// Replaces results for which both regions yield the same value.
static LogicalResult replaceSameYields(IfOp op, PatternRewriter &rewriter) {
  bool isChanged = false;
  Operation *thenYield = op.getThenRegion().front().getTerminator();
  Operation *elseYield = op.getElseRegion().front().getTerminator();
  for (auto [result, first, second] :
       llvm::zip(op.getResults(), thenYield->getOperands(), elseYield->getOperands()))
    if (first == second && !result.use_empty()) {
      rewriter.replaceAllUsesWith(result, first);
      isChanged = true;
    }
  return success(isChanged);
}

void IfOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(inlineKnownBranch);
  patterns.add(replaceSameYields);
}

LogicalResult LoopOp::verify() {
  if (getInits().size() != getNumResults())
    return emitOpError("found ") << getInits().size() << " initial values for " << getNumResults()
                                 << " results";
  if (getBody().getNumArguments() != getNumResults() + 1)
    return emitOpError("found ") << getBody().getNumArguments()
                                 << " block arguments, expected the iteration and the carried values";
  return verifyYields(*this, getBody(), getNumResults() + 1, "body");
}

LogicalResult VjpOp::verify() {
  if (getBody().getNumArguments() != getInputs().size())
    return emitOpError("found ") << getBody().getNumArguments() << " block arguments for "
                                 << getInputs().size() << " inputs";
  const size_t least = getGradients().size(), most = least + getInputs().size();
  if (least == 0 || getNumResults() < least || getNumResults() > most)
    return emitOpError("found ") << least << " gradients and " << getNumResults()
                                 << " results, expected a gradient or more, and a result for each and for "
                                    "some of the inputs";
  return verifyYields(*this, getBody(), least, "body");
}

LogicalResult StageOp::verify() {
  if (getBody().getArgumentTypes() != getInputs().getTypes())
    return emitOpError("found block arguments ")
           << getBody().getArgumentTypes() << ", expected the inputs' types " << getInputs().getTypes();
  return verifyYields(*this, getBody(), getNumResults(), "body");
}

} // namespace cleave
