//===- InferStateRows.cpp - States with a row for each sample -------------===//
#include "ir/ExampleShapes.h"
#include "ir/ParkedObserves.h"
#include "ir/inference/ShapeInference.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "partitioner/sharding/BatchAnalysis.h"
#include "passes/Passes.h"
#include "llvm/Support/Threading.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_INFERSTATEROWS
#include "passes/Passes.h.inc"

using Dims = SmallVector<int64_t>;

/// Limit of the dimensions that are tried, each with a run of type inference.
static constexpr size_t kMaxTries = 8;

/// The update of a state; null if there is none.
static WriteStateOp updateOf(ReadStateOp state) {
  for (WriteStateOp update : state->getBlock()->getOps<WriteStateOp>())
    if (update.getState() == state)
      return update;
  return {};
}

static SmallVector<ReadStateOp> statesOf(func::FuncOp function) {
  SmallVector<ReadStateOp> states;
  function.walk([&](ReadStateOp state) { states.push_back(state); });
  return states;
}

/// Candidates for a state's batch dimension. If the example request expands one dimension from 1 to the size
/// of the batch, that one; if it expands none, each that has the size of the batch. Otherwise none.
static Dims rowDimsOf(ReadStateOp state, const InferredValues &example, int64_t samples) {
  WriteStateOp update = updateOf(state);
  auto before = dyn_cast<RankedTensorType>(state.getType()),
       after = update ? example.tensors.lookup(update.getValue()) : RankedTensorType();
  if (!before || !after || !before.hasStaticShape() || before.getRank() != after.getRank())
    return {};
  Dims expanded, unchanged;
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip(before.getShape(), after.getShape()))) {
    auto [own, next] = sizes;
    if (own != next && (own != 1 || next != samples))
      return {};
    if (next == samples)
      (own == next ? unchanged : expanded).push_back(dim);
  }
  return expanded.empty() ? unchanged : expanded.size() == 1 ? expanded : Dims();
}

namespace {
/// Swallows the diagnostics of this thread while it lives.
class Quiet {
public:
  explicit Quiet(MLIRContext *context)
      : handler(context, [thread = llvm::get_threadid()](Diagnostic &) {
          return success(llvm::get_threadid() == thread);
        }) {}

private:
  ScopedDiagnosticHandler handler;
};

struct InferStateRows : impl::InferStateRowsBase<InferStateRows> {
  using InferStateRowsBase::InferStateRowsBase;

  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    func::FuncOp function = getOperation();
    const SmallVector<ReadStateOp> states = statesOf(function);
    const int64_t samples = ExampleShapes(function).sizes().lookup(batch);
    // Of one sample, each dimension of size 1 would have a row.
    if (states.empty() || samples < 2)
      return;
    Quiet quiet(&getContext());
    auto example = inferExampleShapes(function);
    if (failed(example))
      return;
    SmallVector<Dims> candidates;
    size_t most = 1;
    for (ReadStateOp state : states) {
      candidates.push_back(rowDimsOf(state, *example, samples));
      if (candidates.back().empty())
        return;
      most = std::max(most, candidates.back().size());
    }
    // Tries the n-th candidate of all states together, not all combinations: states that are alike have their
    // batch dimension at the same index.
    for (size_t choice = 0; choice < std::min(most, kMaxTries); ++choice) {
      Dims dims;
      for (const Dims &own : candidates)
        dims.push_back(own[std::min(choice, own.size() - 1)]);
      if (runsOnParts(function, *example, dims))
        return setRows(function, dims);
    }
  }

  void setRows(func::FuncOp function, ArrayRef<int64_t> dims) {
    Builder b(&getContext());
    for (auto [state, dim] : llvm::zip(statesOf(function), dims)) {
      auto type = cast<RankedTensorType>(state.getType());
      SmallVector<int64_t> shape(type.getShape());
      SmallVector<std::string> names;
      for (int64_t size : shape)
        names.push_back(std::to_string(size));
      shape[dim] = ShapedType::kDynamic;
      names[dim] = batch;
      state.getResult().setType(RankedTensorType::get(
          shape, type.getElementType(), LayoutAttr::get(b.getContext(), names, ArrayRef<std::string>())));
      state.setBatchDimAttr(b.getI64IntegerAttr(dim));
    }
  }

  /// True if the function, with rows in these dimensions of its states, runs on parts of the batch, and gives
  /// results of the same shapes as in the first request without.
  bool runsOnParts(func::FuncOp function, const InferredValues &example, ArrayRef<int64_t> dims) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(function.getLoc());
    func::FuncOp copy = function.clone();
    module->push_back(copy);
    setRows(copy, dims);
    PassManager manager(&getContext());
    manager.addNestedPass<func::FuncOp>(createInferTypes());
    manager.addNestedPass<func::FuncOp>(createFoldSizes());
    manager.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    manager.addNestedPass<func::FuncOp>(createCSEPass());
    if (failed(manager.run(*module)))
      return false;
    auto hasRows = [](ReadStateOp state) { return state.getBatchDim().has_value(); };
    if (!llvm::all_of(statesOf(copy), hasRows) || findBatchObstacle(copy, batch))
      return false;
    const ExampleShapes shapes(copy);
    auto hasSameShape = [&](auto results) {
      auto [own, whole] = results;
      const RankedTensorType type = example.tensors.lookup(whole);
      auto shape = shapes.shapeOf(own);
      return type && shape && type.getShape() == ArrayRef(*shape);
    };
    return llvm::all_of(llvm::zip(copy.getBody().front().getTerminator()->getOperands(),
                                  function.getBody().front().getTerminator()->getOperands()),
                        hasSameShape);
  }
};
} // namespace

} // namespace cleave
