//===- ShapeInference.cpp - Types and sizes of every value ----------------===//
#include "ir/inference/ShapeInference.h"
#include "ir/ExampleShapes.h"
#include "ir/Signature.h"
#include "ir/inference/Samples.h"
#include "ir/inference/SizeSearch.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

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

/// True if every run calls the operator.
static bool isAlwaysRun(Operation *op) {
  return !op->getParentOfType<IfOp>() && !op->getParentOfType<LoopOp>();
}

/// The call in the block at which the model certainly fails, whatever the data; null if it may succeed.
static Operation *findCertainFailure(Block &block, const MetaInterpreter &example) {
  for (Operation &op : block) {
    auto failed = example.failures.find(&op);
    auto call = dyn_cast<OperatorOp>(op);
    if ((failed != example.failures.end() && failed->second.isRefusal) ||
        (call && semanticsOf(call.getName()).raises))
      return &op;
    if (!isa<IfOp>(op))
      continue;
    Operation *first = nullptr;
    bool isCertain = llvm::all_of(op.getRegions(), [&](Region &region) {
      Operation *inside = region.empty() ? nullptr : findCertainFailure(region.front(), example);
      first = first ? first : inside;
      return inside != nullptr;
    });
    if (isCertain)
      return first;
  }
  return nullptr;
}

/// The inputs that an operation computes with, and their shapes: `, where x is 2x3 and mask is 2x1`. Empty if
/// there are none or more than two, or if they have no names.
static std::string describeInputs(func::FuncOp function, Operation *op) {
  constexpr size_t kShown = 2;
  llvm::SetVector<Value> behind(op->operand_begin(), op->operand_end());
  for (size_t i = 0; i < behind.size(); ++i)
    if (Operation *maker = behind[i].getDefiningOp())
      maker->walk([&](Operation *inner) { behind.insert(inner->operand_begin(), inner->operand_end()); });
  const ExampleShapes shapes(function);
  std::vector<std::string> inputs;
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    auto shape = behind.contains(argument) ? shapes.shapeOf(argument) : std::nullopt;
    auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
    if (!shape || !name)
      continue;
    auto sizes = llvm::map_range(*shape, [](int64_t size) { return std::to_string(size); });
    inputs.push_back(name.str() + " is " + (shape->empty() ? "a number" : llvm::join(sizes, "x")));
  }
  return inputs.empty() || inputs.size() > kShown ? "" : ", where " + llvm::join(inputs, " and ");
}

/// Fails if an operator refuses the example inputs.
static LogicalResult checkExample(func::FuncOp function, const MetaInterpreter &example) {
  WalkResult walk = function.walk([&](Operation *op) {
    auto failed = example.failures.find(op);
    if (failed == example.failures.end() || !failed->second.isRefusal ||
        !(failed->second.isRaised || isAlwaysRun(op)))
      return WalkResult::advance();
    op->emitError() << op->getName() << " fails on the example inputs (" << failed->second.reason << ")"
                    << describeInputs(function, op) << "; "
                    << (function->hasAttr("cleave.tp")
                            ? "its part of a tensor-parallel rank is none that it takes: keep weights "
                              "around it whole (--shard PATTERN=replicate), or --mesh tp=1"
                            : "give inputs that the model takes");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  Operation *certain = findCertainFailure(function.getBody().front(), example);
  if (!certain)
    return success();
  auto failed = example.failures.find(certain);
  return certain->emitError() << certain->getName() << " fails on the example inputs ("
                              << (failed == example.failures.end() ? "the model raises"
                                                                   : failed->second.reason)
                              << "), and every other branch fails as well; give inputs that the model takes";
}

namespace {
/// An operator that works at the example sizes but not at others.
struct FixedPlace {
  Operation *op = nullptr;
  std::string reason;
  llvm::StringMap<int64_t> sizes;
};
} // namespace

static std::optional<FixedPlace> findFixed(func::FuncOp function, const Samples &samples) {
  std::optional<FixedPlace> found;
  auto requiredSamples = ArrayRef(samples.runs).take_front(samples.fitter.requiredSamples());
  function.walk([&](Operation *op) {
    for (auto [i, run] : llvm::enumerate(requiredSamples))
      if (auto failed = run.failures.find(op);
          failed != run.failures.end() && !samples.runs.front().failures.count(op)) {
        found = FixedPlace{op, failed->second.reason, samples.fitter.samples()[i]};
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return found;
}

static LogicalResult reportFixed(func::FuncOp function, const FixedPlace &place, const std::string &fixed) {
  auto autoDynamic = function->getAttrOfType<StringAttr>(kAutoDynamicAttr);
  return place.op->emitError() << place.op->getName() << " fails at " << describe(place.sizes) << " ("
                               << place.reason << ") but not at the traced sizes; the model fixes "
                               << (fixed.empty() ? "a dimension" : fixed) << " there: "
                               << (autoDynamic && autoDynamic.getValue() == fixed
                                       ? "use --microbatches 1 and dp=1, name the dimension that is "
                                         "the batch with --dynamic"
                                       : "name it at each input that has it, leave it out of --dynamic")
                               << ", or trace a model that takes it from its input";
}

FailureOr<std::unique_ptr<Samples>> sample(func::FuncOp function, llvm::StringMap<SizeLimits> &limits,
                                           bool onlyTraced) {
  ExampleShapes example(function);
  SizeTable sizes;
  for (auto &entry : example.sizes())
    sizes.emplace_back(entry.first().str(), entry.second);
  llvm::sort(sizes);
  auto samples = std::make_unique<Samples>(function, sizes, limits, onlyTraced);
  if (failed(checkExample(function, samples->runs.front())))
    return failure();
  if (onlyTraced || sizes.empty())
    return samples;
  SizeSearch search(function, sizes, samples->runs.front());
  auto place = findFixed(function, *samples);
  if (!place) {
    if (samples->fails[samples->fitter.smallestEdge()])
      search.findMin(limits);
    return samples;
  }
  auto runsWithin = [&](const llvm::StringMap<SizeLimits> &found) {
    auto again = std::make_unique<Samples>(function, sizes, found, onlyTraced);
    if (findFixed(function, *again))
      return false;
    samples = std::move(again);
    limits = found;
    return true;
  };
  std::string fixed;
  llvm::StringMap<SizeLimits> found;
  if (search.findRanges(found, fixed) && runsWithin(found))
    return samples;
  auto call = dyn_cast<OperatorOp>(place->op);
  // A view with a constant size usually marks a size that tracing has fixed.
  bool isView = call && (semanticsOf(call.getName()).isView || semanticsOf(call.getName()).mayBeView);
  found = {};
  if (search.findDivisibleBy(isView ? 1 : 256, found, fixed) &&
      (runsWithin(found) || (search.findRanges(found, fixed) && runsWithin(found))))
    return samples;
  return reportFixed(function, *place, fixed);
}

/// Numbers storages in program order.
static void collectStorages(func::FuncOp function, const MetaInterpreter &sample, InferredValues &result) {
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

static FailureOr<InferredValues> inferAt(func::FuncOp function, bool onlyTraced) {
  registerMetaKernels();
  MetaRunGuard guard;
  InferredValues result;
  result.limits = limitsOf(function);
  auto samples = sample(function, result.limits, onlyTraced);
  if (failed(samples))
    return failure();
  generalize(function, **samples, result);
  const MetaInterpreter &example = (*samples)->runs.front();
  collectStorages(function, example, result);
  function.walk([&](Operation *op) {
    if (auto failed = example.failures.find(op); failed != example.failures.end())
      result.unknown.push_back({op, failed->second.reason, failed->second.isRefusal});
  });
  return result;
}

/// Tensors too large to describe, and missing devices, are refused by libtorch.
static FailureOr<InferredValues> infer(func::FuncOp function, bool onlyTraced) {
  try {
    return inferAt(function, onlyTraced);
  } catch (const std::exception &e) {
    return function.emitError() << "the types of its values cannot be inferred: "
                                << StringRef(e.what()).split('\n').first;
  }
}

FailureOr<InferredValues> inferShapes(func::FuncOp function) { return infer(function, /*onlyTraced=*/false); }

FailureOr<InferredValues> inferExampleShapes(func::FuncOp function) {
  return infer(function, /*onlyTraced=*/true);
}

} // namespace cleave
