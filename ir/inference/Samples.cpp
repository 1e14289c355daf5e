//===- Samples.cpp - Runs of a function at several sizes ------------------===//
#include "ir/inference/Samples.h"
#include "mlir/IR/Builders.h"
#include <ATen/Parallel.h>
#include <utility>

using namespace mlir;

namespace cleave {

MetaRunGuard::MetaRunGuard() : threads(at::get_num_threads()) { at::set_num_threads(1); }
MetaRunGuard::~MetaRunGuard() { at::set_num_threads(threads); }

Samples::Samples(func::FuncOp function, const SizeTable &sizes, const llvm::StringMap<SizeLimits> &limits,
                 bool onlyTraced)
    : fitter(sizes, limits), sizes(sizes) {
  runs.reserve(fitter.samples().size());
  for (auto &sample : ArrayRef(fitter.samples()).take_front(onlyTraced ? 1 : fitter.samples().size()))
    run(function, sample);
}

void Samples::run(func::FuncOp function, const llvm::StringMap<int64_t> &sample) {
  MetaInterpreter &latest = runs.emplace_back(sample, /*tracksStorages=*/runs.empty());
  latest.run(function);
  fails.push_back(latest.failsWhereRuns(runs.front()));
}

void Samples::addBelowEdges(func::FuncOp function) {
  if (std::exchange(hasTriedEdges, true))
    return;
  const SizeSearch search(function, sizes, runs.front());
  for (size_t i = fitter.requiredSamples(); i < runs.size(); ++i)
    for (auto &[name, example] : sizes) {
      if (!fails[i] || !fitter.isEdge(i))
        continue;
      const int64_t edge = fitter.samples()[i].lookup(name), step = fitter.stepOf(name);
      const int64_t last = search.runsAt(name, edge) ? edge : search.lastThatRuns(name, edge, step);
      for (int64_t size : {last, example + (last - example) / step / 2 * step})
        fitter.addSamples({fitter.resized(name, size)});
    }
}

bool Samples::refine(func::FuncOp function, const std::set<std::vector<int64_t>> &unresolved) {
  size_t before = fitter.samples().size();
  for (const std::vector<int64_t> &observed : unresolved)
    fitter.addSamples(fitter.distinguishingSamples(observed));
  if (!unresolved.empty())
    addBelowEdges(function);
  for (size_t i = before; i < fitter.samples().size(); ++i)
    run(function, fitter.samples()[i]);
  return fitter.samples().size() > before;
}

namespace {
/// Fits expressions to the values observed at all samples.
class Generalizer {
public:
  Generalizer(MLIRContext *context, Samples &given, InferredValues &result)
      : context(context), given(given), fitter(given.fitter), samples(given.runs), result(result) {}

  void visit(Value value);

  /// True once dimensions were tried one by one where the function fails with all of them.
  bool isRefined = false;
  /// Observed sizes without an expression.
  std::set<std::vector<int64_t>> unresolved;

private:
  /// The value at sample `i`; null if the run did not get there.
  const c10::IValue *valueAt(size_t i) const {
    auto found = samples[i].values.find(current);
    return found == samples[i].values.end() ? nullptr : &found->second;
  }
  /// Fits `get(value)` over all samples; where nothing fits, over those at which the function runs. Strides
  /// of dimensions of size 1 have no meaning, so edges are left out for strides.
  template <typename Get> SymbolicDim fit(Get get, bool withEdges = true) {
    std::vector<int64_t> observed;
    for (size_t i = 0; i < samples.size(); ++i) {
      const c10::IValue *value = withEdges || !given.mayFail(i) ? valueAt(i) : nullptr;
      observed.push_back(value ? get(*value) : DimFitter::kNotObserved);
    }
    SymbolicDim dim = fitter.fit(observed);
    if (!dim.isUnknown() || !withEdges)
      return dim;
    // What a slice takes of a table, say: the size that is asked for, up to that of the table, beyond which
    // the function fails.
    for (size_t i = fitter.requiredSamples(); i < samples.size(); ++i)
      if (given.fails[i])
        observed[i] = DimFitter::kNotObserved;
    if (isRefined)
      dim = fitter.fit(observed);
    if (dim.isUnknown())
      unresolved.insert(std::move(observed));
    return dim;
  }
  /// True if it holds at every sample that has a value.
  bool all(llvm::function_ref<bool(const c10::IValue &)> holds) {
    for (size_t i = 0; i < samples.size(); ++i)
      if (const c10::IValue *value = valueAt(i); value && !holds(*value))
        return false;
    return true;
  }
  void visitTensor(const at::Tensor &first);
  void visitList(size_t length);

  MLIRContext *context;
  const Samples &given;
  DimFitter &fitter;
  const std::vector<MetaInterpreter> &samples;
  InferredValues &result;
  Value current;
};
} // namespace

void Generalizer::visitTensor(const at::Tensor &first) {
  bool isSame = all([&](const c10::IValue &value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() == first.dim() &&
           value.toTensor().scalar_type() == first.scalar_type();
  });
  Type element = elementTypeOf(first.scalar_type(), context);
  if (!isSame || !element)
    return;
  bool isContiguous = all([](const c10::IValue &value) { return value.toTensor().is_contiguous(); });
  SmallVector<int64_t> shape;
  SmallVector<std::string> dims, strides;
  for (int64_t i = 0; i < first.dim(); ++i) {
    SymbolicDim size = fit([&](const c10::IValue &value) { return value.toTensor().size(i); });
    shape.push_back(size.asConstant().value_or(ShapedType::kDynamic));
    dims.push_back(size.str());
    if (!isContiguous)
      strides.push_back(
          fit([&](const c10::IValue &value) { return value.toTensor().stride(i); }, /*withEdges=*/false)
              .str());
  }
  if (!ShapedType::isDynamicShape(shape))
    dims.clear();
  Attribute layout;
  if (!dims.empty() || !strides.empty())
    layout = LayoutAttr::get(context, dims, strides);
  result.tensors[current] = RankedTensorType::get(shape, element, layout);
}

void Generalizer::visitList(size_t length) {
  if (!all([&](const c10::IValue &value) { return value.isIntList() && value.toIntList().size() == length; }))
    return;
  std::vector<SymbolicDim> items;
  for (size_t i = 0; i < length; ++i)
    items.push_back(fit([&](const c10::IValue &value) { return value.toIntList().get(i); }));
  if (llvm::none_of(items, [](const SymbolicDim &item) { return item.isUnknown(); }))
    result.sizeLists[current] = std::move(items);
}

void Generalizer::visit(Value value) {
  current = value;
  for (size_t i = 0; i < samples.size(); ++i)
    if (i < fitter.requiredSamples() && !valueAt(i))
      return;
  const c10::IValue &first = samples.front().values.find(value)->second;
  if (first.isTensor() && first.toTensor().defined())
    return visitTensor(first.toTensor());
  if (first.isInt() && all([](const c10::IValue &other) { return other.isInt(); })) {
    SymbolicDim size = fit([](const c10::IValue &other) { return other.toInt(); });
    if (!size.isUnknown())
      result.sizes[value] = size;
  } else if (first.isIntList()) {
    visitList(first.toIntList().size());
  } else if ((first.isBool() || first.isDouble() || first.isString()) && all([&](const c10::IValue &other) {
               return other.tagKind() == first.tagKind() && other == first;
             })) {
    result.constants[value] = toAttribute(first, context);
  }
}

void generalize(func::FuncOp function, Samples &samples, InferredValues &result) {
  // Each sample halves the candidates: 64 divisors take six rounds, and a row confirms the last one.
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    result.tensors.clear();
    result.sizes.clear();
    result.sizeLists.clear();
    result.constants.clear();
    Generalizer generalizer(function.getContext(), samples, result);
    generalizer.isRefined = round > 0;
    function.walk([&](Operation *op) {
      for (Region &region : op->getRegions())
        llvm::for_each(region.getArguments(), [&](Value value) { generalizer.visit(value); });
      llvm::for_each(op->getResults(), [&](Value value) { generalizer.visit(value); });
    });
    if (generalizer.unresolved.empty() ||
        (!samples.refine(function, generalizer.unresolved) && generalizer.isRefined))
      return;
  }
}

} // namespace cleave
