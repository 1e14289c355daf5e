//===- BackwardPassCache.cpp - Backward passes of single calls ------------===//
#include "ir/autograd/BackwardPassCache.h"
#include "ir/Signature.h"
#include "ir/UsedValues.h"
#include "ir/autograd/Differentiate.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

/// Bytes per element to read and write a weight gradient that is accumulated in float32.
static constexpr double kSummedBytes = 2 * sizeof(float);

static bool isFloating(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type && isa<FloatType, ComplexType>(type.getElementType());
}

//===- Recording ----------------------------------------------------------===//

/// A function with only the call, and its backward pass if there is one.
struct BackwardPassCache::Recorded {
  OwningOpRef<ModuleOp> module;
  bool hasBackward = false;
  /// Indices of saved tensors among the flat operands, and of saved results.
  SmallVector<unsigned> savedOperands, savedResults;
  /// Saved values of `module` that are neither operands nor results.
  SmallVector<Value> intermediates;
  /// See BackwardWork.
  SmallVector<OperatorOp> inputGradients, weightGradients;
  /// By operator that makes gradients of weights: these.
  llvm::DenseMap<Operation *, SmallVector<Value, 2>> weightGradientsOf;
  /// Operators that run under autograd.
  SmallVector<VjpOp, 1> vjps;
};

namespace {
/// Makes the function of one call.
class CallRecorder {
public:
  CallRecorder(OperatorOp op, const GradientFlow &flow) : op(op), flow(flow), b(op->getContext()) {}

  /// Builds the function. False if an operand is no tensor of known type, constant, size or list of these, or
  /// a result with a gradient is no such tensor.
  bool build();
  /// Adds the backward pass. False if that fails; no diagnostic is shown.
  bool differentiate();

  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// The forward pass lies before this operation, the backward pass after it.
  Operation *forwardEnd = nullptr;
  /// Tensors among the flat operands; the arguments that stand for them are the function's first.
  SmallVector<Value> tensors;
  /// By tensor: the result that is its gradient; nothing if it has none.
  SmallVector<std::optional<unsigned>> gradients;

private:
  Value import(Value value);
  bool addGradientArguments(Operation *call);

  OperatorOp op;
  const GradientFlow &flow;
  OpBuilder b;
};
} // namespace

/// A tensor becomes an argument; constants, sizes and lists are made again. Null for other values.
Value CallRecorder::import(Value value) {
  if (isa<RankedTensorType>(value.getType())) {
    tensors.push_back(value);
    return function.getBody().front().addArgument(value.getType(), op->getLoc());
  }
  Operation *maker = value.getDefiningOp();
  if (!maker || !isa<ConstantOp, SizeOp, ListOp>(maker))
    return {};
  SmallVector<Value> items;
  for (Value operand : maker->getOperands()) {
    items.push_back(import(operand));
    if (!items.back())
      return {};
  }
  Operation *made = b.clone(*maker);
  made->setOperands(items);
  return made->getResult(0);
}

bool CallRecorder::build() {
  module = ModuleOp::create(op->getLoc());
  b.setInsertionPointToEnd(module->getBody());
  function = b.create<func::FuncOp>(op->getLoc(), "call", b.getFunctionType({}, {}));
  auto parent = op->getParentOfType<func::FuncOp>();
  for (StringRef name : {kSymbolsAttr, kSizeLimitsAttr})
    if (Attribute attribute = parent->getAttr(name))
      function->setAttr(name, attribute);
  function.addEntryBlock();
  b.setInsertionPointToEnd(&function.getBody().front());
  const StringRef dropProbability = semanticsOf(op.getName()).dropProbability;
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    // Attention is recorded without dropout: GPUs drop inside the fused kernel, whereas ATen on a CPU uses
    // the unfused form then.
    const bool isAttentionDropout = op.getArgumentName(i) == dropProbability &&
                                    isa<FloatType>(operand.getType()) &&
                                    semanticsOf(op.getName()).isContraction;
    operands.push_back(isAttentionDropout
                           ? Value(b.create<ConstantOp>(op->getLoc(), b.getF64Type(), b.getF64FloatAttr(0)))
                           : import(operand));
    if (!operands.back())
      return false;
  }
  Operation *call = b.clone(*op);
  call->setOperands(operands);
  forwardEnd = b.create<ConstantOp>(op->getLoc(), b.getNoneType(), b.getUnitAttr());
  b.create<func::ReturnOp>(op->getLoc(), call->getResults());
  return addGradientArguments(call);
}

/// Arguments for the gradients of the results that have one.
bool CallRecorder::addGradientArguments(Operation *call) {
  Block &block = function.getBody().front();
  bool hasGradient = false;
  for (auto [result, own] : llvm::zip(op->getResults(), call->getResults())) {
    if (!flow.requiresGrad(result) || result.use_empty())
      continue;
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      return false;
    auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
    Attribute contiguous = layout && !layout.getDims().empty()
                               ? LayoutAttr::get(op->getContext(), layout.getDims(), {})
                               : Attribute();
    block.addArgument(RankedTensorType::get(type.getShape(), type.getElementType(), contiguous),
                      op->getLoc());
    hasGradient = true;
  }
  function.setType(b.getFunctionType(block.getArgumentTypes(), call->getResultTypes()));
  return hasGradient;
}

bool CallRecorder::differentiate() {
  ScopedDiagnosticHandler silent(op->getContext(), [](Diagnostic &) { return success(); });
  SmallVector<unsigned> results;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (flow.requiresGrad(result) && !result.use_empty())
      results.push_back(i);
  std::vector<bool> wanted;
  for (Value tensor : tensors)
    wanted.push_back(flow.requiresGrad(tensor) && isFloating(tensor));
  auto gradientResults = addVjp(function, results, wanted);
  if (failed(gradientResults))
    return false;
  gradients = std::move(*gradientResults);
  return true;
}

/// The operations after `last` on which the values depend.
static llvm::SetVector<Operation *> backwardSlice(ArrayRef<Value> values, Operation *last) {
  llvm::SetVector<Operation *> slice;
  auto add = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    if (maker && last->isBeforeInBlock(maker))
      slice.insert(maker);
  };
  llvm::for_each(values, add);
  for (size_t i = 0; i < slice.size(); ++i)
    llvm::for_each(usedValues(slice[i]), add);
  return slice;
}

/// Adds the calls of the operations. A call inside a `cleave.vjp` is added three times: for the forward pass
/// that is rerun, and for gradients of inputs and of weights.
static void addCalls(ArrayRef<Operation *> operations, SmallVectorImpl<OperatorOp> &calls) {
  for (Operation *op : operations) {
    if (auto call = dyn_cast<OperatorOp>(op))
      calls.push_back(call);
    if (auto vjp = dyn_cast<VjpOp>(op))
      vjp->walk([&](OperatorOp call) { calls.append(kVjpRuns, call); });
  }
}

//===- Saved values -------------------------------------------------------===//

/// Classifies the forward tensors that the backward operations read: indices of arguments go to `operands`,
/// those of results to `savedResults`, others to `intermediates`.
static void addSaved(const CallRecorder &recorder, ArrayRef<Operation *> backward, size_t results,
                     SmallVectorImpl<unsigned> &operands, SmallVectorImpl<unsigned> &savedResults,
                     SmallVectorImpl<Value> &intermediates) {
  func::FuncOp function = recorder.function;
  Operation *terminator = function.getBody().front().getTerminator();
  llvm::SetVector<Value> read;
  for (Operation *op : backward) {
    auto call = dyn_cast<OperatorOp>(op);
    if (call && (semanticsOf(call.getName()).readsNoElements || semanticsOf(call.getName()).isScalar))
      continue;
    for (Value value : usedValues(op))
      if (isa<RankedTensorType>(value.getType()) &&
          (!value.getDefiningOp() || value.getDefiningOp()->isBeforeInBlock(recorder.forwardEnd)))
        read.insert(storageOf(value));
  }
  for (Value storage : read) {
    if (auto argument = dyn_cast<BlockArgument>(storage)) {
      if (argument.getArgNumber() < recorder.tensors.size())
        operands.push_back(argument.getArgNumber());
      continue;
    }
    size_t result = 0;
    while (result < results && storageOf(terminator->getOperand(result)) != storage)
      ++result;
    if (result < results)
      savedResults.push_back(result);
    else
      intermediates.push_back(storage);
  }
}

//===- BackwardPassCache ------------------------------------------------------===//

BackwardPassCache::BackwardPassCache() = default;
BackwardPassCache::~BackwardPassCache() = default;

/// Adds what identifies the value: type, constant or size, and whether it requires grad.
static void addToKey(Value value, const GradientFlow &flow, std::vector<const void *> &key) {
  key.push_back(value.getType().getAsOpaquePointer());
  key.push_back(reinterpret_cast<const void *>(uintptr_t(flow.requiresGrad(value)) +
                                               2 * uintptr_t(flow.isWeight(value))));
  Operation *maker = isa<RankedTensorType>(value.getType()) ? nullptr : value.getDefiningOp();
  if (!maker || !isa<ConstantOp, SizeOp, ListOp>(maker))
    return;
  key.push_back(maker->getName().getAsOpaquePointer());
  key.push_back(maker->getAttrDictionary().getAsOpaquePointer());
  key.push_back(reinterpret_cast<const void *>(uintptr_t(maker->getNumOperands())));
  for (Value operand : maker->getOperands())
    addToKey(operand, flow, key);
}

BackwardPassCache::Key BackwardPassCache::keyOf(OperatorOp op, const GradientFlow &flow) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto attribute = [&](StringRef name) {
    Attribute value = function->getAttr(name);
    return value ? value.getAsOpaquePointer() : nullptr;
  };
  Key key{op->getName().getAsOpaquePointer(), attribute(kSymbolsAttr), attribute(kSizeLimitsAttr)};
  for (Value operand : op->getOperands())
    addToKey(operand, flow, key);
  for (Value value : op->getResults()) {
    key.push_back(value.getType().getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(uintptr_t(value.use_empty())));
  }
  return key;
}

BackwardPassCache::Recorded BackwardPassCache::record(OperatorOp op, const GradientFlow &flow) {
  CallRecorder recorder(op, flow);
  Recorded recorded;
  recorded.hasBackward = recorder.build() && recorder.differentiate();
  if (recorded.hasBackward) {
    Operation *terminator = recorder.function.getBody().front().getTerminator();
    SmallVector<Value> ofInputs, ofWeights;
    for (auto [tensor, gradient] : llvm::zip(recorder.tensors, recorder.gradients)) {
      if (!gradient)
        continue;
      Value made = terminator->getOperand(*gradient);
      (flow.isWeight(tensor) ? ofWeights : ofInputs).push_back(made);
      if (Operation *maker = storageOf(made).getDefiningOp(); maker && flow.isWeight(tensor))
        recorded.weightGradientsOf[maker].push_back(made);
    }
    auto inputs = backwardSlice(ofInputs, recorder.forwardEnd),
         weights = backwardSlice(ofWeights, recorder.forwardEnd);
    weights.remove_if([&](Operation *shared) { return inputs.contains(shared); });
    addCalls(inputs.getArrayRef(), recorded.inputGradients);
    addCalls(weights.getArrayRef(), recorded.weightGradients);
    inputs.insert(weights.begin(), weights.end());
    for (Operation *backward : inputs)
      if (auto vjp = dyn_cast<VjpOp>(backward))
        recorded.vjps.push_back(vjp);
    addSaved(recorder, inputs.getArrayRef(), op->getNumResults(), recorded.savedOperands,
             recorded.savedResults, recorded.intermediates);
  }
  recorded.module = std::move(recorder.module);
  return recorded;
}

/// Appends the work of the calls at the sizes of `shapes`; calls without work are left out.
static void addWork(ArrayRef<OperatorOp> calls,
                    const llvm::DenseMap<Operation *, SmallVector<Value, 2>> &weightGradientsOf,
                    const ExampleShapes &shapes, SmallVectorImpl<GradientWork> &work) {
  for (OperatorOp call : calls) {
    const OpSemantics &semantics = semanticsOf(call.getName());
    GradientWork gradient{call, workOf(call, shapes),
                          semantics.gemm ? semantics.gemm(call, shapes) : std::nullopt};
    for (Value made : weightGradientsOf.lookup(call))
      gradient.work.bytes += kSummedBytes * shapes.elementsOf(made) - shapes.bytesOf(made);
    if (gradient.work.flops || gradient.work.bytes)
      work.push_back(gradient);
  }
}

BackwardWork BackwardPassCache::backwardPassOf(OperatorOp op, const ExampleShapes &shapes,
                                               const GradientFlow &flow) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  BackwardWork result;
  if (!flow.isDifferentiated(op) || semantics.isScalar || semantics.collective ||
      storageOf(op->getResult(0)) != op->getResult(0))
    return result;
  Key key = keyOf(op, flow);
  auto found = known.find(key);
  if (found == known.end())
    found = known.emplace(std::move(key), record(op, flow)).first;
  const Recorded &recorded = found->second;
  SmallVector<Value> tensors;
  for (Value operand : flatOperands(op))
    if (isa<RankedTensorType>(operand.getType()))
      tensors.push_back(operand);
  if (!recorded.hasBackward) {
    if (semantics.linearity != Linearity::All)
      result.saved = tensors;
    result.extraBytes = semantics.savedBytes ? semantics.savedBytes(op, shapes) : 0;
    const bool hasInputGradient =
        llvm::any_of(tensors, [&](Value value) { return flow.requiresGrad(value) && !flow.isWeight(value); });
    addWork(op, recorded.weightGradientsOf, shapes,
            hasInputGradient ? result.inputGradients : result.weightGradients);
    return result;
  }
  for (unsigned index : recorded.savedOperands)
    result.saved.push_back(tensors[index]);
  for (unsigned index : recorded.savedResults)
    result.saved.push_back(op->getResult(index));
  for (Value value : recorded.intermediates)
    result.extraBytes += shapes.bytesOf(value);
  if (semantics.savedBytes)
    result.extraBytes = semantics.savedBytes(op, shapes);
  for (VjpOp vjp : recorded.vjps)
    result.workspaceBytes = std::max(result.workspaceBytes, autogradBytesOf(vjp, shapes).value_or(0));
  addWork(recorded.inputGradients, recorded.weightGradientsOf, shapes, result.inputGradients);
  addWork(recorded.weightGradients, recorded.weightGradientsOf, shapes, result.weightGradients);
  return result;
}

} // namespace cleave
