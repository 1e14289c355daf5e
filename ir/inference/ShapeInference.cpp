//===- ShapeInference.cpp - Types and sizes of every value ----------------===//
#include "ir/inference/ShapeInference.h"
#include "ir/TracedShapes.h"
#include "ir/inference/DimFitter.h"
#include "ir/inference/Sampler.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

using namespace mlir;

namespace cleave {

using SizeTable = std::vector<std::pair<std::string, int64_t>>;

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

/// An operator that refuses the example inputs makes them wrong.
static LogicalResult checkExample(func::FuncOp function, const Sampler &traced) {
  WalkResult walk = function.walk([&](Operation *op) {
    auto failed = traced.failures.find(op);
    if (failed == traced.failures.end() || !failed->second.isRefusal ||
        !(failed->second.isRaised || isAlwaysRun(op)))
      return WalkResult::advance();
    op->emitError() << op->getName() << " fails on the example inputs (" << failed->second.reason
                    << "); give inputs that the model takes";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

namespace {
/// Runs of the function at the sizes that a fitter chose.
struct Samples {
  Samples(func::FuncOp function, const SizeTable &sizes, const llvm::StringMap<int64_t> &multiples, bool onlyTraced)
      : fitter(sizes, multiples) {
    for (auto &point : ArrayRef(fitter.samples()).take_front(onlyTraced ? 1 : fitter.samples().size()))
      runs.emplace_back(point).run(function);
  }

  DimFitter fitter;
  std::vector<Sampler> runs;
};

/// An operator that works at the traced sizes but not at others.
struct FixedPlace {
  Operation *op = nullptr;
  std::string reason;
  llvm::StringMap<int64_t> sizes;
};
} // namespace

static std::optional<FixedPlace> findFixed(func::FuncOp function, const Samples &samples) {
  std::optional<FixedPlace> found;
  auto mustRun = ArrayRef(samples.runs).take_front(samples.fitter.mustRun());
  function.walk([&](Operation *op) {
    for (auto [i, run] : llvm::enumerate(mustRun))
      if (auto failed = run.failures.find(op);
          failed != run.failures.end() && !samples.runs.front().failures.count(op)) {
        found = FixedPlace{op, failed->second.reason, samples.fitter.samples()[i]};
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return found;
}

/// Whether the function runs at `size` of one dimension as it does at the traced one.
static bool runsAt(func::FuncOp function, const Samples &samples, StringRef name, int64_t size) {
  llvm::StringMap<int64_t> point = samples.fitter.samples().front();
  point[name] = size;
  Sampler run(point);
  run.run(function);
  return llvm::all_of(run.failures, [&](auto &failed) { return samples.runs.front().failures.count(failed.first); });
}

/// For each dimension the least number, at most half of the traced size, of whose multiples the function runs at another
/// one; where there is none, it is `fixed`. A view of a fixed size is the mark of a size that the trace has fixed.
static llvm::StringMap<int64_t> findMultiples(func::FuncOp function, const SizeTable &sizes, const Samples &samples,
                                              const FixedPlace &place, std::string &fixed) {
  constexpr int64_t kLargest = 256;
  auto call = dyn_cast<OperatorOp>(place.op);
  bool isView = call && (semanticsOf(call.getName()).isView || semanticsOf(call.getName()).mayBeView);
  llvm::StringMap<int64_t> multiples;
  for (auto &[name, size] : sizes) {
    int64_t multiple = 1, largest = isView ? 1 : std::clamp<int64_t>(size / 2, 1, kLargest);
    // 1 is a size of its own kind, and tables of positions end somewhere.
    auto runs = [&](int64_t step) { return runsAt(function, samples, name, size - step > 1 ? size - step : size + step); };
    while (multiple <= largest && (size % multiple != 0 || !runs(multiple)))
      ++multiple;
    if (multiple > largest) {
      fixed = name;
      return {};
    }
    if (multiple > 1)
      multiples[name] = multiple;
  }
  return multiples;
}

static LogicalResult reportFixed(func::FuncOp function, const FixedPlace &place, const std::string &fixed) {
  auto opened = function->getAttrOfType<StringAttr>(kOpenedAttr);
  return place.op->emitError() << place.op->getName() << " fails at " << describe(place.sizes) << " (" << place.reason
                               << ") but not at the traced sizes; the model fixes "
                               << (fixed.empty() ? "a dimension" : fixed) << " there: "
                               << (opened && opened.getValue() == fixed ? "use --microbatches 1" : "leave it out of --dynamic")
                               << ", or trace a model that takes it from its input";
}

/// Samples at which the function runs, where it does at more than the traced sizes.
static FailureOr<std::unique_ptr<Samples>> sample(func::FuncOp function, llvm::StringMap<int64_t> &multiples,
                                                  bool onlyTraced) {
  TracedShapes traced(function);
  SizeTable sizes;
  for (auto &entry : traced.sizes())
    sizes.emplace_back(entry.first().str(), entry.second);
  llvm::sort(sizes);
  auto samples = std::make_unique<Samples>(function, sizes, multiples, onlyTraced);
  if (failed(checkExample(function, samples->runs.front())))
    return failure();
  auto place = findFixed(function, *samples);
  if (!place)
    return samples;
  std::string fixed;
  multiples = findMultiples(function, sizes, *samples, *place, fixed);
  if (!multiples.empty())
    if (auto again = std::make_unique<Samples>(function, sizes, multiples, onlyTraced); !findFixed(function, *again))
      return again;
  return reportFixed(function, *place, fixed);
}

/// Numbers storages in program order.
static void collectStorages(func::FuncOp function, const Sampler &sample, InferredValues &result) {
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
  InferredValues result;
  result.multiples = multiplesOf(function);
  auto samples = sample(function, result.multiples, onlyTraced);
  if (failed(samples))
    return failure();
  const Sampler &traced = (*samples)->runs.front();
  collectStorages(function, traced, result);
  Generalizer generalizer(function.getContext(), (*samples)->fitter, (*samples)->runs, result);
  function.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        generalizer.visit(argument);
    for (Value value : op->getResults())
      generalizer.visit(value);
    if (auto failed = traced.failures.find(op); failed != traced.failures.end())
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
