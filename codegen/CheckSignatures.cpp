//===- CheckSignatures.cpp - Whether functions share their weights --------===//
#include "codegen/CheckSignatures.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/cost/ModelGraph.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringMap.h"
#include <set>

using namespace mlir;

namespace cleave {

namespace {
/// What the first function says of a weight or state that it uses.
struct First {
  func::FuncOp function;
  Operation *op;
  std::set<int64_t> stages;
};
} // namespace

/// What all functions must say alike.
static DictionaryAttr sharedAttributes(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase(kStageIndexAttr);
  return attributes.getDictionary(op->getContext());
}

static LogicalResult checkUse(Operation *op, int64_t stage, First &first, StringRef what) {
  if (op->getResultTypes() != first.op->getResultTypes() ||
      (isa<ParamOp>(op) && sharedAttributes(op) != sharedAttributes(first.op)))
    return op->emitError() << "found " << what << " of " << op->getResultTypes()[0] << " with "
                           << sharedAttributes(op) << ", expected " << first.op->getResultTypes()[0]
                           << " with " << sharedAttributes(first.op) << " as in signature "
                           << first.function.getName();
  const bool isRepeated =
      isa<ParamOp>(op) && ExampleShapes(first.function).bytesOf(op->getResult(0)) <= kSmallWeightBytes;
  if (!isRepeated && !first.stages.count(stage))
    return op->emitError() << "found " << what << " in stage " << stage << ", expected stage "
                           << *first.stages.begin() << " as in signature " << first.function.getName();
  return success();
}

LogicalResult checkSignatures(ModuleOp module) {
  llvm::StringMap<First> weights, states;
  for (auto function : module.getOps<func::FuncOp>())
    for (auto stage : function.getBody().getOps<StageOp>()) {
      WalkResult walk = stage.walk([&](Operation *op) {
        auto param = dyn_cast<ParamOp>(op);
        auto state = dyn_cast<ReadStateOp>(op);
        if (!param && !state)
          return WalkResult::advance();
        const StringRef name = param ? param.getName() : state.getName();
        First &first = (param ? weights : states).try_emplace(name, First{function, op, {}}).first->second;
        if (first.function == function)
          first.stages.insert(stage.getIndex());
        else if (failed(checkUse(op, stage.getIndex(), first,
                                 ((param ? "weight \"" : "state \"") + name + "\"").str())))
          return WalkResult::interrupt();
        return WalkResult::advance();
      });
      if (walk.wasInterrupted())
        return failure();
    }
  return success();
}

} // namespace cleave
