//===- OpSemantics.cpp - Semantics of operators ---------------------------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace cleave {

void SemanticsTable::add(std::initializer_list<StringRef> names, OpSemantics entry) {
  entry.isKnown = true;
  for (StringRef name : names) {
    [[maybe_unused]] bool isNew = entries.try_emplace(name, entry).second;
    assert(isNew && "an operator has one entry");
  }
}

const OpSemantics *SemanticsTable::find(StringRef name) const {
  auto found = entries.find(name);
  return found == entries.end() ? nullptr : &found->second;
}

static const SemanticsTable &table() {
  static const SemanticsTable instance = [] {
    SemanticsTable table;
    addElementwise(table);
    addContractions(table);
    addRecurrent(table);
    addConvolutions(table);
    addNorms(table);
    addLosses(table);
    addShapes(table);
    addIndexing(table);
    addSignals(table);
    addScalars(table);
    addCollectives(table);
    addRandom(table);
    addAliasing(table);
    addBackwardPasses(table);
    addGradientSemantics(table);
    addLinearity(table);
    return table;
  }();
  return instance;
}

const OpSemantics &semanticsOf(StringRef irName) {
  static const OpSemantics unknown;
  if (const OpSemantics *exact = table().find(irName))
    return *exact;
  StringRef base = irName.substr(0, irName.find('.', irName.find('.') + 1));
  const OpSemantics *family = table().find(base);
  return family ? *family : unknown;
}

/// True if the operand holds integers.
static bool isIntegral(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<IntegerType>(tensor.getElementType());
}

Reduction reductionOf(OperatorOp op) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  if (!semantics.lossReduction.empty()) {
    const auto how = constantInt(op, semantics.lossReduction);
    if (how == 1)
      return semantics.meanNormalizer && isIntegral(op->getOperand(1)) ? Reduction::WeightedMean
                                                                       : Reduction::Mean;
    return how == 2 ? Reduction::Sum : Reduction::Other;
  }
  // An addend would be added for each part.
  if (semantics.isContraction || !semantics.isSumOverReduceFactors || !semantics.addend.empty())
    return Reduction::Other;
  return semantics.isMean ? Reduction::Mean : Reduction::Sum;
}

std::optional<OpShardingRule> opShardingRuleOf(OperatorOp op, const ExampleShapes &shapes) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  auto rule = semantics.shardingRule ? semantics.shardingRule(op, shapes) : std::nullopt;
  if (!rule || rule->results.empty() || semantics.readsNoElements)
    return rule;
  // Operands that a rule does not cover are needed whole.
  auto operands = operandShapes(op, shapes);
  rule->operands.resize(operands.size());
  for (auto [dims, shape] : llvm::zip(rule->operands, operands))
    if (shape && dims.empty())
      for (int64_t size : *shape)
        dims.push_back(rule->addDim(FactorKind::NeedsReplication, size));
  return rule;
}

std::optional<IndexMap> indexMapOf(OperatorOp op, const ExampleShapes &shapes) {
  auto positions = semanticsOf(op.getName()).indexMap;
  return positions ? positions(op, shapes) : std::nullopt;
}

bool prepacksWeights(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  return call && semanticsOf(call.getName()).prepacksWeights &&
         llvm::all_of(op->getOperands(), [](Value value) {
           Operation *maker = value.getDefiningOp();
           return maker && !maker->hasAttr(kTrainedAttr) &&
                  (isa<ParamOp, ConstantOp>(maker) || prepacksWeights(maker));
         });
}

bool isItemAccess(Operation *op) {
  auto call = dyn_cast_or_null<OperatorOp>(op);
  return call && !semanticsOf(call.getName()).item.empty();
}

std::optional<unsigned> constantItem(OperatorOp access) {
  auto index = constantInt(access, semanticsOf(access.getName()).item);
  return index && *index >= 0 ? std::optional<unsigned>(*index) : std::nullopt;
}

bool isOfAutograd(llvm::StringRef irName) {
  const llvm::StringRef name = irName.split('.').second.split('.').first;
  return name.ends_with("_backward") || name.ends_with("_forward") || name.ends_with("_backward_data");
}

bool isRandom(OperatorOp op) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (!op.getSchema().isRandom || (function && function->hasAttr(kTrainingAttr)))
    return false;
  auto train = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument("train"));
  if (train && train.getValue().isZero())
    return false;
  llvm::StringLiteral dropProbability = semanticsOf(op.getName()).dropProbability;
  auto value = dropProbability.empty() ? nullptr
                                       : dyn_cast_or_null<FloatAttr>(op.getConstantArgument(dropProbability));
  return !value || !value.getValue().isZero();
}

OpWork workOf(Operation *op, const ExampleShapes &shapes) {
  OpWork work;
  auto call = dyn_cast<OperatorOp>(op);
  if (!call) {
    // Control flow costs as much as its regions, run once; a vjp runs its region forward and back.
    const double runs = isa<VjpOp>(op) ? kVjpRuns : 1;
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps()) {
        OpWork part = workOf(&inner, shapes);
        work.flops += runs * part.flops;
        work.bytes += runs * part.bytes;
      }
    return work;
  }
  const OpSemantics &semantics = semanticsOf(call.getName());
  if (semantics.isView || semantics.isScalar || prepacksWeights(op))
    return work;
  int64_t largest = 0;
  for (Value result : op->getResults()) {
    work.bytes += shapes.bytesOf(result);
    largest = std::max(largest, shapes.elementsOf(result));
  }
  double written = work.bytes;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    double bytes = shapes.bytesOf(operand);
    work.bytes += semantics.readsSparsely && i == 0 ? std::min(bytes, written) : bytes;
  }
  work.flops = semantics.flops ? semantics.flops(call, shapes) : largest;
  return work;
}

std::optional<int64_t> autogradBytesOf(VjpOp op, const ExampleShapes &shapes) {
  std::optional<int64_t> bytes;
  for (Operation &inner : op.getBody().front()) {
    if (isa<ListOp, ConstantOp, SizeOp, YieldOp>(inner))
      continue;
    auto call = dyn_cast<OperatorOp>(inner);
    auto *known = call ? semanticsOf(call.getName()).autogradBytes : nullptr;
    if (!known || bytes)
      return std::nullopt;
    bytes = known(call, shapes);
  }
  return bytes;
}

} // namespace cleave
