#include "tests/rolling/Rolling.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/Support/FormatVariadic.h"
#include <ATen/ATen.h>

using namespace mlir;

namespace cleave {

namespace {
/// Why a call cannot be run on rolled operands.
struct NotRolled : std::runtime_error {
  using runtime_error::runtime_error;
};
} // namespace

//===- Sharding groups ----------------------------------------------------===//

RollingReport Rolling::run() {
  for (BlockArgument argument : function.getArguments())
    rollFrom({argument}, llvm::formatv("input {0}", argument.getArgNumber()));
  for (auto param : function.getBody().getOps<ParamOp>())
    rollFrom({param}, param.getName().str());
  return report;
}

void Rolling::rollFrom(TensorRef tensor, const std::string &name) {
  auto type = analyzed.typeOf(tensor);
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim) {
    if (analyzed.sizeOf(tensor, dim) < 2 || seen.contains({tensor.value, dim}))
      continue;
    ShardingGroup split = analyzed.propagate(tensor, dim);
    for (auto &[other, labelled] : split.tensors)
      seen.insert({other.value, labelled.dim});
    roll(split, llvm::formatv("{0} dim {1}", name, dim));
  }
}

void Rolling::roll(const ShardingGroup &split, const std::string &what) {
  if (split.count < 2)
    return;
  ++report.groups;
  // What several labels share would have to take the place of two others.
  if (!split.shared.empty()) {
    ++report.skipped["group: labels share positions"];
    return;
  }
  group = &split, name = what;
  bool isRolled = false;
  for (int32_t step : {1, std::max(split.count / 2, 2)}) {
    if (!findOrder(step))
      continue;
    isRolled = true;
    for (const AnalyzedCall &call : analyzed.getCalls())
      check(call);
  }
  report.rolled += isRolled;
  if (!isRolled)
    ++report.skipped["group: no two labels have as many positions in each tensor"];
}

/// Labels change places with those that have as many positions in each tensor. False where none do.
bool Rolling::findOrder(int32_t step) {
  std::vector<std::vector<uint32_t>> counts(group->count, std::vector<uint32_t>(group->tensors.size()));
  for (auto [index, entry] : llvm::enumerate(group->tensors))
    for (int32_t label : entry.second.labels)
      if (label != LabelledDim::kReplicated)
        ++counts[label][index];
  std::map<std::vector<uint32_t>, Labels> alike;
  for (int32_t label = 0; label < group->count; ++label)
    alike[counts[label]].push_back(label);
  order.resize(group->count);
  bool isRolled = false;
  for (auto &[count, labels] : alike)
    for (size_t i = 0; i < labels.size(); ++i) {
      order[labels[i]] = labels[(i + step) % labels.size()];
      isRolled |= order[labels[i]] != labels[i];
    }
  return isRolled;
}

//===- Tensors ------------------------------------------------------------===//

/// Where each position takes its data from.
std::optional<at::Tensor> Rolling::indexOf(const Labels &labels) const {
  std::vector<std::vector<int64_t>> positions(order.size());
  for (auto [position, label] : llvm::enumerate(labels))
    if (label != LabelledDim::kReplicated)
      positions[label].push_back(position);
  std::vector<int64_t> from(labels.size());
  for (size_t position = 0; position < labels.size(); ++position)
    from[position] = position;
  for (auto [label, own] : llvm::enumerate(positions)) {
    const std::vector<int64_t> &others = positions[order[label]];
    if (others.size() != own.size())
      return std::nullopt;
    for (auto [to, position] : llvm::zip(own, others))
      from[to] = position;
  }
  return at::tensor(from, at::kLong);
}

at::Tensor Rolling::rollBy(const at::Tensor &tensor, unsigned dim, const Labels &labels) const {
  auto index = indexOf(labels);
  if (!index)
    throw NotRolled("call: labels have unequal numbers of positions");
  return tensor.index_select(dim, *index);
}

const LabelledDim *Rolling::labelledDimOf(TensorRef tensor) const {
  auto entry = group->tensors.find(tensor);
  return tensor.value && entry != group->tensors.end() ? &entry->second : nullptr;
}

//===- What a call does with the sharding group ---------------------------===//

bool Rolling::isIndexMapped(const AnalyzedCall &call, TensorRef tensor) const {
  const LabelledDim *own = labelledDimOf(tensor);
  return own && call.indexMap && own->dim == call.indexMap->dim;
}

/// The split operands that the call does not need whole.
std::vector<unsigned> Rolling::rolledOperands(const AnalyzedCall &call) const {
  std::vector<unsigned> rolled;
  for (auto [index, tensor] : llvm::enumerate(call.operands))
    if (labelledDimOf(tensor) && !llvm::is_contained(group->gathers, call.uses[index]))
      rolled.push_back(index);
  return rolled;
}

/// The labels of a dimension with these factors.
Rolling::Labels Rolling::spread(const AnalyzedCall &call, const LabelledFactor &labelled,
                                ArrayRef<unsigned> dim) const {
  const FactorMapping mapping = *mappingOf(*call.rule, dim, *labelled.factor);
  int64_t size = 1;
  for (unsigned part : dim)
    size *= call.rule->factors[part].size;
  Labels labels(size);
  for (int64_t position = 0; position < size; ++position)
    labels[position] = labelled.labels[mapping.firstOf(position)];
  return labels;
}

/// The factors by which all rolled operands may have their labels, whatever the propagation thought; several
/// where their positions have one label.
std::vector<Rolling::LabelledFactor> Rolling::factorsOf(const AnalyzedCall &call,
                                                        ArrayRef<unsigned> rolled) const {
  auto isOwn = [&](TensorRef tensor) { return isIndexMapped(call, tensor); };
  if (llvm::any_of(call.operands, isOwn) || llvm::any_of(call.results, isOwn))
    return {LabelledFactor{}};
  std::vector<LabelledFactor> candidates;
  for (unsigned factor = 0; call.rule && factor < call.rule->factors.size(); ++factor) {
    std::optional<LabelledFactor> labelled;
    bool fits = call.rule->factors[factor].size > 1;
    for (unsigned operand : rolled) {
      const LabelledDim &own = *labelledDimOf(call.operands[operand]);
      const OpShardingRule::Dim &dim = call.rule->operands[operand][own.dim];
      fits = fits && llvm::is_contained(dim, factor);
      if (!fits)
        break;
      if (!labelled) {
        labelled = LabelledFactor{factor, Labels(call.rule->factors[factor].size)};
        for (size_t i = 0; i < labelled->labels.size(); ++i)
          labelled->labels[i] = own.labels[i * mappingOf(*call.rule, dim, factor)->stride];
      }
      fits = own.labels == spread(call, *labelled, dim);
    }
    if (fits && labelled)
      candidates.push_back(std::move(*labelled));
  }
  return candidates;
}

at::Tensor Rolling::rollOperand(const AnalyzedCall &call, const LabelledFactor &labelled,
                                unsigned operand) const {
  at::Tensor value = values.valueOf(call.uses[operand]->get()).toTensor();
  if (!labelled.factor)
    return isIndexMapped(call, call.operands[operand])
               ? rollBy(value, call.indexMap->dim, labelledDimOf(call.operands[operand])->labels)
               : value;
  bool hasFactor = false;
  for (auto [dim, factors] : llvm::enumerate(call.rule->operands[operand]))
    if (llvm::is_contained(factors, *labelled.factor)) {
      value = rollBy(value, dim, spread(call, labelled, factors));
      hasFactor = true;
    }
  // An index is where what it named has gone.
  if (!hasFactor && call.rule->factors[*labelled.factor].kind == FactorKind::Lookup &&
      at::isIntegralType(value.scalar_type(), /*includeBool=*/false))
    value = at::argsort(*indexOf(labelled.labels)).take(value.to(at::kLong)).to(value.scalar_type());
  return value;
}

/// What the labels of a result's dimension should be; nothing where the sharding group does not reach it.
std::optional<Rolling::Labels> Rolling::labelsOfResult(const AnalyzedCall &call,
                                                       const LabelledFactor &labelled, unsigned result,
                                                       unsigned dim) const {
  if (labelled.factor) {
    auto &all = call.rule->results;
    if (all.empty())
      return std::nullopt;
    auto &dims = all[std::min<size_t>(result, all.size() - 1)];
    return dim < dims.size() && llvm::is_contained(dims[dim], *labelled.factor)
               ? std::optional(spread(call, labelled, dims[dim]))
               : std::nullopt;
  }
  if (dim != call.indexMap->dim)
    return std::nullopt;
  const LabelledDim *own =
      isIndexMapped(call, call.results[result]) ? labelledDimOf(call.results[result]) : nullptr;
  Labels labels;
  bool isReached = false;
  for (auto [position, source] : llvm::enumerate(call.indexMap->results[result])) {
    TensorRef tensor = call.operands[source.operand];
    isReached |= isIndexMapped(call, tensor) &&
                 labelledDimOf(tensor)->labels[source.position] != LabelledDim::kReplicated;
    // What every rank has can be given any label.
    labels.push_back(isIndexMapped(call, tensor) ? labelledDimOf(tensor)->labels[source.position]
                     : own                       ? own->labels[position]
                                                 : LabelledDim::kReplicated);
  }
  return isReached ? std::optional(labels) : std::nullopt;
}

at::Tensor Rolling::rollResult(const AnalyzedCall &call, const LabelledFactor &labelled, unsigned result,
                               const at::Tensor &value, const Given &given) const {
  if (labelled.factor) {
    at::Tensor rolled = value;
    for (unsigned dim = 0; dim < value.dim(); ++dim)
      if (auto labels = labelsOfResult(call, labelled, result, dim))
        rolled = rollBy(rolled, dim, *labels);
    return rolled;
  }
  // Where positions of one label change their order, as by flip, labels alone do not say what takes whose
  // place.
  Tensors joined;
  llvm::DenseMap<unsigned, int64_t> begins;
  std::vector<int64_t> from;
  int64_t size = 0;
  for (const IndexMap::Source &source : call.indexMap->results[result]) {
    if (auto [begin, isNew] = begins.try_emplace(source.operand, size); isNew) {
      joined.push_back(given.lookup(call.uses[source.operand]).to(value.scalar_type()));
      size += joined.back().size(call.indexMap->dim);
    }
    from.push_back(begins[source.operand] + source.position);
  }
  if (joined.empty())
    return value;
  return at::cat(joined, call.indexMap->dim).index_select(call.indexMap->dim, at::tensor(from, at::kLong));
}

//===- Calls --------------------------------------------------------------===//

void Rolling::fail(const AnalyzedCall &call, const std::string &what) {
  OperatorOp op = call.op;
  report.failures.push_back(llvm::formatv("sharding group of {0}, {1} parts: {2} at {3}: {4}", name,
                                          group->count, op.getName(), modulePath(op), what));
}

/// Whether a result has the labels that it should, or is said to be made anew, and a sum is said to be one.
std::string Rolling::wrongIn(const AnalyzedCall &call, const LabelledFactor &labelled) const {
  const bool isSum = labelled.factor && call.rule->factors[*labelled.factor].kind != FactorKind::PassThrough;
  OperatorOp op = call.op;
  if (isSum != llvm::is_contained(group->partialSums, op->getResult(0)))
    return isSum ? "a sum is not owed" : "a sum is owed that is none";
  for (auto [index, tensor] : llvm::enumerate(call.results)) {
    auto type = analyzed.typeOf(tensor);
    if (!type || llvm::is_contained(group->reshards, cast<OpResult>(tensor.value)))
      continue;
    const LabelledDim *own = labelledDimOf(tensor);
    for (unsigned dim = 0; dim < type.getRank(); ++dim)
      if (auto labels = labelsOfResult(call, labelled, index, dim); labels && (!own || own->dim != dim))
        return llvm::formatv("dimension {0} of result {1} is split and has no labels", dim, index);
      else if (labels && own->labels != *labels)
        return llvm::formatv("dimension {0} of result {1} has other labels than operands", dim, index);
  }
  return "";
}

void Rolling::check(const AnalyzedCall &call) {
  std::vector<unsigned> rolled = rolledOperands(call);
  if (rolled.empty())
    return;
  const std::vector<LabelledFactor> candidates = factorsOf(call, rolled);
  if (candidates.empty() && call.rule && call.rule->groupedHeads) {
    // Parts of groups: the key/value head that a group shares would have to be there for each part.
    ++report.skipped["call: parts of groups"];
    return;
  }
  if (candidates.empty())
    return fail(call, "operands have labels of no one factor");
  auto isRight = [&](const LabelledFactor &labelled) { return wrongIn(call, labelled).empty(); };
  auto right = llvm::find_if(candidates, isRight);
  const LabelledFactor &labelled = right == candidates.end() ? candidates.front() : *right;
  if (right == candidates.end())
    fail(call, wrongIn(call, labelled));
  if (isRandom(call.op)) {
    ++report.skipped["call: random"];
    return;
  }
  try {
    run(call, labelled);
  } catch (const NotRolled &why) {
    ++report.skipped[why.what()];
  } catch (const std::exception &error) {
    fail(call, StringRef(error.what()).split('\n').first.str());
  }
}

void Rolling::run(const AnalyzedCall &call, const LabelledFactor &labelled) {
  OperatorOp op = call.op;
  Given given;
  for (unsigned operand = 0; operand < call.operands.size(); ++operand)
    if (call.operands[operand].value && values.valueOf(call.uses[operand]->get()).isTensor())
      given[call.uses[operand]] = rollOperand(call, labelled, operand);
  auto valueOf = [&](OpOperand &use) {
    return given.contains(&use) ? c10::IValue(given[&use]) : values.valueOf(use.get());
  };
  std::vector<c10::IValue> operands;
  for (OpOperand &use : op->getOpOperands()) {
    operands.push_back(valueOf(use));
    if (auto list = use.get().getDefiningOp<ListOp>()) {
      std::vector<c10::IValue> items;
      for (OpOperand &item : list->getOpOperands())
        items.push_back(valueOf(item));
      operands.back() = makeList(list, items);
    }
  }
  ++report.calls;
  ++report.operators[op.getName().str()];
  compare(call, labelled, given, callOperator(op, std::move(operands)));
}

static double differenceOf(at::Tensor left, at::Tensor right) {
  if (left.sizes() != right.sizes() || left.scalar_type() != right.scalar_type())
    return INFINITY;
  if (left.is_complex())
    left = at::view_as_real(left), right = at::view_as_real(right);
  if (left.numel() == 0 || at::equal(left, right))
    return 0;
  left = left.to(at::kDouble), right = right.to(at::kDouble);
  const at::Tensor isFinite = left.isfinite().logical_and(right.isfinite());
  // NaN has its place, and infinities have their signs.
  const at::Tensor isSame = left.eq(right).logical_or(left.isnan().logical_and(right.isnan()));
  if (!isSame.logical_or(isFinite).all().item<bool>())
    return INFINITY;
  const at::Tensor zero = at::zeros({}, at::kDouble);
  const double difference = (left - right).abs().where(isFinite, zero).max().item<double>(),
               size = right.abs().where(isFinite, zero).max().item<double>();
  return difference / std::max(size, 1e-6);
}

void Rolling::compare(const AnalyzedCall &call, const LabelledFactor &labelled, const Given &given,
                      ArrayRef<c10::IValue> results) {
  for (auto [index, tensor] : llvm::enumerate(call.results)) {
    auto result = cast<OpResult>(tensor.value);
    auto tensorOf = [&](const c10::IValue &value) {
      return value.isTensor() ? value.toTensor() : value.toListRef()[tensor.item].toTensor();
    };
    const at::Tensor plain = tensorOf(values.valueOf(result)),
                     rolled = tensorOf(results[result.getResultNumber()]);
    const bool isNarrow = plain.scalar_type() == at::kBFloat16 || plain.scalar_type() == at::kHalf;
    const double difference = differenceOf(rolled, rollResult(call, labelled, index, plain, given));
    if (difference > (isNarrow ? 2e-2 : 1e-4))
      fail(call, llvm::formatv("result {0} differs by {1:e2} of its size", index, difference));
  }
}

} // namespace cleave
