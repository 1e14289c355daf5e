//===- CallBackwards.cpp - What the backward pass of a call takes ---------===//
#include "ir/autograd/CallBackwards.h"
#include "ir/Signature.h"
#include "ir/UsedValues.h"
#include "ir/autograd/Differentiate.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

/// Bytes per element to read and write an accumulated weight gradient.
static constexpr double kSummedBytes = 2 * sizeof(float);

static bool isFloating(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type && isa<FloatType, ComplexType>(type.getElementType());
}

//===- Recording ----------------------------------------------------------===//

/// The call in a function of its own, differentiated.
struct CallBackwards::Recorded {
  OwningOpRef<ModuleOp> module;
  bool isKnown = false;
  /// By tensor among the flat operands of the call, and by result: saved.
  SmallVector<unsigned> savedOperands, savedResults;
  /// Values of `module` that are saved besides.
  SmallVector<Value> extra;
  /// Calls of `module`.
  SmallVector<OperatorOp> inputs, weights;
  /// By call that makes a weight's gradient: that gradient.
  llvm::DenseMap<Operation *, Value> weightOf;
};

namespace {
/// Makes the function of one call.
class CallRecorder {
public:
  CallRecorder(OperatorOp op, const GradientFlow &flow) : op(op), flow(flow), b(op->getContext()) {}

  /// False if the call takes or gives what is not known without data.
  bool build();
  bool differentiate();

  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// The last operation of the forward pass.
  Operation *last = nullptr;
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
    // Kernels of GPUs drop within attention; those of CPUs compose it then.
    const bool isDrop = op.getArgumentName(i) == dropProbability && isa<FloatType>(operand.getType()) &&
                        semanticsOf(op.getName()).isContraction;
    operands.push_back(isDrop
                           ? Value(b.create<ConstantOp>(op->getLoc(), b.getF64Type(), b.getF64FloatAttr(0)))
                           : import(operand));
    if (!operands.back())
      return false;
  }
  Operation *call = b.clone(*op);
  call->setOperands(operands);
  last = b.create<ConstantOp>(op->getLoc(), b.getNoneType(), b.getUnitAttr());
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
  auto found = addGradients(function, results, wanted);
  if (failed(found))
    return false;
  gradients = std::move(*found);
  return true;
}

/// The operations behind `last` that the values depend on.
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

/// The calls of the operations and, twice as often, those that a `cleave.vjp` among them runs again.
static void addCalls(ArrayRef<Operation *> operations, SmallVectorImpl<OperatorOp> &calls) {
  for (Operation *op : operations) {
    if (auto call = dyn_cast<OperatorOp>(op))
      calls.push_back(call);
    if (auto vjp = dyn_cast<VjpOp>(op))
      vjp->walk([&](OperatorOp call) { calls.append(3, call); });
  }
}

//===- Saved values -------------------------------------------------------===//

/// Sorts what the backward operations read of the forward pass.
static void addSaved(const CallRecorder &recorder, ArrayRef<Operation *> backward, size_t results,
                     SmallVectorImpl<unsigned> &operands, SmallVectorImpl<unsigned> &saved,
                     SmallVectorImpl<Value> &extra) {
  func::FuncOp function = recorder.function;
  Operation *terminator = function.getBody().front().getTerminator();
  llvm::SetVector<Value> read;
  for (Operation *op : backward) {
    auto call = dyn_cast<OperatorOp>(op);
    if (call && (semanticsOf(call.getName()).readsNoElements || semanticsOf(call.getName()).isScalar))
      continue;
    for (Value value : usedValues(op))
      if (isa<RankedTensorType>(value.getType()) &&
          (!value.getDefiningOp() || value.getDefiningOp()->isBeforeInBlock(recorder.last)))
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
      saved.push_back(result);
    else
      extra.push_back(storage);
  }
}

//===- CallBackwards ------------------------------------------------------===//

CallBackwards::CallBackwards() = default;
CallBackwards::~CallBackwards() = default;

/// Adds what identifies the value: types, constants and sizes, and the gradients that go through it.
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

CallBackwards::Key CallBackwards::keyOf(OperatorOp op, const GradientFlow &flow) {
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

CallBackwards::Recorded CallBackwards::record(OperatorOp op, const GradientFlow &flow) {
  CallRecorder recorder(op, flow);
  Recorded recorded;
  recorded.isKnown = recorder.build() && recorder.differentiate();
  if (recorded.isKnown) {
    Operation *terminator = recorder.function.getBody().front().getTerminator();
    SmallVector<Value> ofInputs, ofWeights;
    for (auto [tensor, gradient] : llvm::zip(recorder.tensors, recorder.gradients)) {
      if (!gradient)
        continue;
      Value made = terminator->getOperand(*gradient);
      (flow.isWeight(tensor) ? ofWeights : ofInputs).push_back(made);
      if (Operation *maker = storageOf(made).getDefiningOp(); maker && flow.isWeight(tensor))
        recorded.weightOf[maker] = made;
    }
    auto inputs = backwardSlice(ofInputs, recorder.last), weights = backwardSlice(ofWeights, recorder.last);
    weights.remove_if([&](Operation *shared) { return inputs.contains(shared); });
    addCalls(inputs.getArrayRef(), recorded.inputs);
    addCalls(weights.getArrayRef(), recorded.weights);
    inputs.insert(weights.begin(), weights.end());
    addSaved(recorder, inputs.getArrayRef(), op->getNumResults(), recorded.savedOperands,
             recorded.savedResults, recorded.extra);
  }
  recorded.module = std::move(recorder.module);
  return recorded;
}

/// The calls, at sizes at hand.
static void addWork(ArrayRef<OperatorOp> calls, const llvm::DenseMap<Operation *, Value> &weightOf,
                    const ExampleShapes &shapes, SmallVectorImpl<GradientWork> &work) {
  for (OperatorOp call : calls) {
    const OpSemantics &semantics = semanticsOf(call.getName());
    GradientWork gradient{call, workOf(call, shapes),
                          semantics.gemm ? semantics.gemm(call, shapes) : std::nullopt};
    if (Value weight = weightOf.lookup(call))
      gradient.work.bytes += kSummedBytes * shapes.elementsOf(weight) - shapes.bytesOf(weight);
    if (gradient.work.flops || gradient.work.bytes)
      work.push_back(gradient);
  }
}

BackwardWork CallBackwards::of(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow) {
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
  if (!recorded.isKnown) {
    if (semantics.linearity != Linearity::All)
      result.saved = tensors;
    const bool isOfInputs =
        llvm::any_of(tensors, [&](Value value) { return flow.requiresGrad(value) && !flow.isWeight(value); });
    addWork(op, recorded.weightOf, shapes, isOfInputs ? result.inputs : result.weights);
    return result;
  }
  for (unsigned index : recorded.savedOperands)
    result.saved.push_back(tensors[index]);
  for (unsigned index : recorded.savedResults)
    result.saved.push_back(op->getResult(index));
  for (Value value : recorded.extra)
    result.extraBytes += shapes.bytesOf(value);
  if (semantics.savedBytes)
    result.extraBytes = semantics.savedBytes(op, shapes);
  addWork(recorded.inputs, recorded.weightOf, shapes, result.inputs);
  addWork(recorded.weights, recorded.weightOf, shapes, result.weights);
  return result;
}

} // namespace cleave
