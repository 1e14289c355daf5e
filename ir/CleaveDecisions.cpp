//===- CleaveDecisions.cpp - What passes decide, as attributes ------------===//
#include "ir/ExampleShapes.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace cleave {

using EmitError = function_ref<InFlightDiagnostic()>;

/// As many ranks, replicas or micro-batches as a plan can have.
static constexpr int64_t kMaxCount = 1 << 16;

static LogicalResult checkCount(EmitError emitError, StringRef what, int64_t count) {
  if (count >= 1 && count <= kMaxCount)
    return success();
  return emitError() << "found " << what << " = " << count << ", expected 1 to " << kMaxCount;
}

static LogicalResult checkAmounts(EmitError emitError, StringRef what, DenseI64ArrayAttr amounts) {
  if (!amounts || llvm::all_of(amounts.asArrayRef(), [](int64_t amount) { return amount >= 0; }))
    return success();
  return emitError() << "found " << what << " = " << amounts << ", expected no number below 0";
}

/// `first` and `second` limits of memory: what is decided holds from the first to below the second.
static LogicalResult checkRange(EmitError emitError, StringRef what, DenseI64ArrayAttr range) {
  if (!range || (range.size() == 2 && range[0] >= 0 && range[0] <= range[1]))
    return success();
  return emitError() << "found " << what << " = " << range << ", expected two limits that ascend";
}

static LogicalResult checkPair(EmitError emitError, StringRef what, DenseF64ArrayAttr pair,
                               StringRef expected) {
  if (!pair || pair.size() == 2)
    return success();
  return emitError() << "found " << what << " = " << pair << ", expected " << expected;
}

template <typename ItemAttr>
static LogicalResult checkItems(EmitError emitError, StringRef what, ArrayAttr items, StringRef expected) {
  if (!items || llvm::all_of(items, [](Attribute item) { return isa<ItemAttr>(item); }))
    return success();
  return emitError() << "found " << what << " = " << items << ", expected a list of " << expected;
}

LogicalResult SizeLimitAttr::verify(EmitError emitError, int64_t divisibleBy, int64_t min, int64_t max) {
  if (divisibleBy >= 1 && min >= 1 && min <= max)
    return success();
  return emitError() << "found multiples of " << divisibleBy << " from " << min << " to " << max
                     << ", expected numbers above 0 that ascend";
}

LogicalResult SeedAttr::verify(EmitError emitError, int64_t dim, int64_t order, bool) {
  if (dim >= 0 && order >= 0)
    return success();
  return emitError() << "found dim = " << dim << ", order = " << order << ", expected no number below 0";
}

LogicalResult WeightShardingAttr::verify(EmitError emitError, StringAttr style, SeedAttr, bool,
                                         bool notWorthSharding) {
  const StringRef word = style ? style.getValue() : "replicate";
  if (!llvm::is_contained({"replicate", "colwise", "rowwise", "embedding_rowwise"}, word))
    return emitError() << "found style = " << style
                       << ", expected colwise, rowwise, embedding_rowwise or replicate";
  if (notWorthSharding && word != "replicate")
    return emitError() << "found style = " << style << " of a weight that is not worth sharding, expected "
                       << "replicate";
  return success();
}

LogicalResult ShardingGroupAttr::verify(EmitError emitError, StringAttr, int64_t parts, ArrayAttr weights,
                                        int64_t allReduces, int64_t allGathers) {
  if (parts < 1 || allReduces < 0 || allGathers < 0)
    return emitError() << "found parts = " << parts << ", all_reduces = " << allReduces
                       << ", all_gathers = " << allGathers << ", expected parts, and no number below 0";
  return checkItems<StringAttr>(emitError, "weights", weights, "names");
}

LogicalResult ShardingDecisionAttr::verify(EmitError emitError, ArrayAttr groups, DenseF64ArrayAttr seconds,
                                           DenseI64ArrayAttr memoryLimitRange) {
  if (failed(checkItems<ShardingGroupAttr>(emitError, "groups", groups, "#cleave.sharding_group")) ||
      failed(checkPair(emitError, "seconds", seconds, "those of the decision, and a lower bound")))
    return failure();
  return checkRange(emitError, "memory_limit_range", memoryLimitRange);
}

LogicalResult CutAttr::verify(EmitError emitError, DenseF64ArrayAttr seconds, DenseI64ArrayAttr recvBytes,
                              DenseF64ArrayAttr bound, StringAttr, StringAttr,
                              DenseI64ArrayAttr weightLimitRange) {
  if (seconds.empty() || seconds.size() != recvBytes.size())
    return emitError() << "found " << seconds.size() << " seconds and " << recvBytes.size()
                       << " recv_bytes, expected one of each a stage";
  if (bound && bound.size() != 1)
    return emitError() << "found bound = " << bound << ", expected one number";
  if (failed(checkAmounts(emitError, "recv_bytes", recvBytes)))
    return failure();
  return checkRange(emitError, "weight_limit_range", weightLimitRange);
}

LogicalResult ScheduleAttr::verify(EmitError emitError, int64_t pipelineRanks, int64_t dataParallelSize,
                                   int64_t microbatches, StringAttr batch, StringAttr batchObstacle,
                                   DenseF64ArrayAttr, StringAttr order) {
  if (failed(checkCount(emitError, "pipeline_ranks", pipelineRanks)) ||
      failed(checkCount(emitError, "data_ranks", dataParallelSize)) ||
      failed(checkCount(emitError, "microbatches", microbatches)))
    return failure();
  if (batch && batchObstacle)
    return emitError() << "found both batch and batch_obstacle, expected one of them";
  if (order && !llvm::is_contained({"gpipe", "1f1b", "interleaved", "zb-h1"}, order.getValue()))
    return emitError() << "found order " << order << ", expected gpipe, 1f1b, interleaved or zb-h1";
  return success();
}

LogicalResult LinkOverrideAttr::verify(EmitError emitError, int64_t from, int64_t to,
                                       DenseF64ArrayAttr speed) {
  if (from < 0 || to < 0)
    return emitError() << "found a link from " << from << " to " << to << ", expected ranks";
  return checkPair(emitError, "speed", speed, "[latency in seconds, bytes a second]");
}

LogicalResult TargetAttr::verify(EmitError emitError, StringAttr, DenseF64ArrayAttr link,
                                 ArrayAttr linkOverrides, ArrayAttr devices, DenseI64ArrayAttr threads,
                                 DenseI64ArrayAttr memoryLimits) {
  if (failed(checkPair(emitError, "link", link, "[latency in seconds, bytes a second]")) ||
      failed(checkItems<LinkOverrideAttr>(emitError, "link_overrides", linkOverrides,
                                          "#cleave.link_override")) ||
      failed(checkItems<StringAttr>(emitError, "devices", devices, "names")) ||
      failed(checkAmounts(emitError, "threads", threads)))
    return failure();
  return checkAmounts(emitError, "memory_limits", memoryLimits);
}

//===- Names --------------------------------------------------------------===//

template <typename DecisionAttr> static bool isOther(NamedAttribute attribute) {
  return attribute.getName() == DecisionAttr::name && !isa<DecisionAttr>(attribute.getValue());
}

template <typename... DecisionAttrs> static bool isOtherThanItsName(NamedAttribute attribute) {
  return (isOther<DecisionAttrs>(attribute) || ...);
}

LogicalResult CleaveDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (isOtherThanItsName<WeightShardingAttr, ShardingDecisionAttr, CutAttr, ScheduleAttr, TargetAttr>(
          attribute))
    return op->emitOpError() << attribute.getName().getValue() << ": found " << attribute.getValue()
                             << ", expected #" << attribute.getName().getValue() << "<...>";
  if (attribute.getName() == PhaseAttr::name && !isa<PhaseAttr>(attribute.getValue()))
    return op->emitOpError() << PhaseAttr::name << ": found " << attribute.getValue()
                             << ", expected #cleave.phase<...>";
  if (attribute.getName() == kSizeLimitsAttr) {
    auto limits = dyn_cast<DictionaryAttr>(attribute.getValue());
    if (!limits ||
        !llvm::all_of(limits, [](NamedAttribute limit) { return isa<SizeLimitAttr>(limit.getValue()); }))
      return op->emitOpError() << kSizeLimitsAttr << ": found " << attribute.getValue()
                               << ", expected a #cleave.size_limit<...> for each named dimension";
  }
  return success();
}

} // namespace cleave
