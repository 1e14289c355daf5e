//===- ShapeInference.cpp - Types and sizes of every value ----------------===//
#include "ir/inference/ShapeInference.h"
#include "ir/TracedShapes.h"
#include "ir/inference/DimFitter.h"
#include "ir/inference/Sampler.h"
#include "mlir/IR/Builders.h"
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

using namespace mlir;

namespace cleave {

namespace {
/// Turns what a value was at every sample into what it is.
class Generalizer {
public:
  Generalizer(MLIRContext *context, DimFitter &fitter, std::vector<Sampler> &samples, InferredValues &result)
      : context(context), fitter(fitter), samples(samples), result(result) {}

  void visit(Value value);

private:
  /// The value at sample `i`; null where an edge did not come as far.
  const c10::IValue *valueAt(size_t i) const {
    auto found = samples[i].values.find(current);
    return found == samples[i].values.end() ? nullptr : &found->second;
  }
  bool isEdge(size_t i) const { return i >= fitter.mustRun(); }

  /// `get(value)` at each sample, as one expression. Strides of dimensions of size 1 mean nothing, so they are not asked
  /// of edges.
  template <typename Get> SymbolicDim fit(Get get, bool withEdges = true) {
    std::vector<int64_t> observed;
    for (size_t i = 0; i < samples.size(); ++i) {
      const c10::IValue *value = isEdge(i) && !withEdges ? nullptr : valueAt(i);
      observed.push_back(value ? get(*value) : DimFitter::kNotObserved);
    }
    return fitter.fit(observed);
  }
  /// Whether it holds at every sample that has a value.
  bool all(llvm::function_ref<bool(const c10::IValue &)> holds) {
    for (size_t i = 0; i < samples.size(); ++i)
      if (const c10::IValue *value = valueAt(i); value && !holds(*value))
        return false;
    return true;
  }
  void visitTensor(const at::Tensor &first);
  void visitList(size_t length);

  MLIRContext *context;
  DimFitter &fitter;
  std::vector<Sampler> &samples;
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
          fit([&](const c10::IValue &value) { return value.toTensor().stride(i); }, /*withEdges=*/false).str());
  }
  if (!ShapedType::isDynamicShape(shape))
    dims.clear();
  Attribute layout;
  if (!dims.empty() || !strides.empty())
    layout = LayoutAttr::get(context, dims, strides);
  result.tensors[current] = RankedTensorType::get(shape, element, layout);
}

void Generalizer::visitList(size_t length) {
  if (!all([&](const c10::IValue &value) { return value.isIntList() && value.toIntVector().size() == length; }))
    return;
  std::vector<SymbolicDim> items;
  for (size_t i = 0; i < length; ++i)
    items.push_back(fit([&](const c10::IValue &value) { return value.toIntVector()[i]; }));
  if (llvm::none_of(items, [](const SymbolicDim &item) { return item.isUnknown(); }))
    result.sizeLists[current] = std::move(items);
}

void Generalizer::visit(Value value) {
  current = value;
  for (size_t i = 0; i < samples.size(); ++i)
    if (!isEdge(i) && !valueAt(i))
      return;
  const c10::IValue &first = samples.front().values.find(value)->second;
  if (first.isTensor() && first.toTensor().defined())
    return visitTensor(first.toTensor());
  if (first.isInt() && all([](const c10::IValue &other) { return other.isInt(); })) {
    SymbolicDim size = fit([](const c10::IValue &other) { return other.toInt(); });
    if (!size.isUnknown())
      result.sizes[value] = size;
  } else if (first.isIntList()) {
    visitList(first.toIntVector().size());
  } else if ((first.isBool() || first.isDouble() || first.isString()) &&
             all([&](const c10::IValue &other) { return other.tagKind() == first.tagKind() && other == first; })) {
    result.constants[value] = toAttribute(first, context);
  }
}

static std::string describe(const llvm::StringMap<int64_t> &sizes) {
  std::vector<std::string> parts;
  for (auto &entry : sizes)
    parts.push_back((entry.first() + "=" + llvm::Twine(entry.second)).str());
  llvm::sort(parts);
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// Whether the operator is called in every run.
static bool isAlwaysRun(Operation *op) { return !op->getParentOfType<IfOp>() && !op->getParentOfType<LoopOp>(); }

/// An operator that refuses the example inputs makes them wrong; one that works at the traced sizes but not at others
/// fixes a dimension.
static LogicalResult checkFailures(func::FuncOp function, const std::vector<Sampler> &samples,
                                   const DimFitter &fitter) {
  WalkResult walk = function.walk([&](Operation *op) {
    if (auto failed = samples.front().failures.find(op); failed != samples.front().failures.end()) {
      if (!failed->second.isRefusal || !(failed->second.isRaised || isAlwaysRun(op)))
        return WalkResult::advance();
      op->emitError() << op->getName() << " fails on the example inputs (" << failed->second.reason
                      << "); give inputs that the model takes";
      return WalkResult::interrupt();
    }
    for (size_t i = 1; i < std::min(samples.size(), fitter.mustRun()); ++i)
      if (auto failed = samples[i].failures.find(op); failed != samples[i].failures.end()) {
        op->emitError() << op->getName() << " fails at " << describe(fitter.samples()[i]) << " ("
                        << failed->second.reason << ") but not at the traced sizes; the model fixes a dimension there: "
                        << "leave it out of --dynamic, or trace a model that takes it from its input";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Numbers storages in program order.
static void collectStorages(func::FuncOp function, Sampler &sample, InferredValues &result) {
  DenseMap<const void *, unsigned> ids;
  auto add = [&](Value value, const at::Tensor &tensor) {
    if (!tensor.defined() || !tensor.has_storage())
      return;
    const void *storage = tensor.storage().unsafeGetStorageImpl();
    unsigned id = ids.try_emplace(storage, ids.size()).first->second;
    result.storages[value].push_back({id, int64_t(tensor.storage().nbytes())});
  };
  auto visit = [&](Value value) {
    auto known = sample.values.find(value);
    if (known == sample.values.end())
      return;
    if (known->second.isTensor())
      add(value, known->second.toTensor());
    else if (known->second.isTensorList())
      for (const at::Tensor &tensor : known->second.toTensorVector())
        add(value, tensor);
  };
  llvm::for_each(function.getArguments(), visit);
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    llvm::for_each(op->getResults(), visit);
    for (Region &region : op->getRegions())
      if (op != function)
        llvm::for_each(region.getArguments(), visit);
  });
}

namespace {
/// One intra-op thread while it lives: trying small operators gains nothing from more.
class SingleThreaded {
public:
  SingleThreaded() : before(at::get_num_threads()) { at::set_num_threads(1); }
  ~SingleThreaded() { at::set_num_threads(before); }

private:
  int before;
};
} // namespace

static FailureOr<InferredValues> inferAt(func::FuncOp function, bool onlyTraced) {
  registerMetaKernels();
  c10::InferenceMode inference;
  SingleThreaded singleThreaded;
  TracedShapes traced(function);
  std::vector<std::pair<std::string, int64_t>> symbols;
  for (auto &entry : traced.sizes())
    symbols.emplace_back(entry.first().str(), entry.second);
  llvm::sort(symbols);
  DimFitter fitter(symbols);
  std::vector<Sampler> samples;
  samples.reserve(fitter.samples().size());
  for (auto &point : llvm::ArrayRef(fitter.samples()).take_front(onlyTraced ? 1 : fitter.samples().size()))
    samples.emplace_back(point).run(function);
  if (failed(checkFailures(function, samples, fitter)))
    return failure();
  InferredValues result;
  collectStorages(function, samples.front(), result);
  Generalizer generalizer(function.getContext(), fitter, samples, result);
  function.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        generalizer.visit(argument);
    for (Value value : op->getResults())
      generalizer.visit(value);
    if (auto failed = samples.front().failures.find(op); failed != samples.front().failures.end())
      result.unknown.emplace_back(op, failed->second.reason);
  });
  return result;
}

/// Tensors too large to describe, and devices that do not exist, are libtorch's to refuse.
static FailureOr<InferredValues> infer(func::FuncOp function, bool onlyTraced) {
  try {
    return inferAt(function, onlyTraced);
  } catch (const std::exception &e) {
    return function.emitError() << "the types of its values cannot be inferred: " << StringRef(e.what()).split('\n').first;
  }
}

FailureOr<InferredValues> inferShapes(func::FuncOp function) { return infer(function, /*onlyTraced=*/false); }

FailureOr<InferredValues> inferTracedShapes(func::FuncOp function) { return infer(function, /*onlyTraced=*/true); }

} // namespace cleave
