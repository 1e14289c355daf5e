//===- BatchAnalysis.cpp - Can the batch be split? ------------------------===//
#include "partitioner/sharding/BatchAnalysis.h"
#include "ir/autograd/LossAttributes.h"
#include "partitioner/sharding/BatchWalk.h"

using namespace mlir;

namespace cleave {

std::optional<unsigned> dimensionHolding(Type type, StringRef name) {
  std::optional<unsigned> found;
  for (auto [i, dim] : llvm::enumerate(dimsOf(type))) {
    Dependence dependence = dependenceOf(dim, name);
    if (dependence == Dependence::None)
      continue;
    if (dependence == Dependence::Other || found)
      return std::nullopt;
    found = i;
  }
  return found;
}

std::string BatchObstacle::operationName() const {
  return isa<func::FuncOp>(op) ? "the model" : op->getName().getStringRef().str();
}

std::string BatchObstacle::describe() const {
  const StringRef path = modulePath(op);
  return operationName() + (path.empty() ? "" : " at " + path.str()) + " " + reason;
}

std::optional<BatchObstacle> findBatchObstacle(func::FuncOp function, StringRef name) {
  if (auto split = function->getAttrOfType<StringAttr>(kSplitBatchAttr); split && split.getValue() == name)
    return std::nullopt;
  auto found = BatchWalk(function, name).run();
  if (found)
    found->reason += (" dimension " + name).str();
  return found;
}

llvm::DenseSet<Value> valuesThatDependOnSplit(func::FuncOp function, StringRef name) {
  BatchWalk walk(function, name);
  llvm::DenseSet<Value> found;
  if (walk.run())
    return found;
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      if (walk.dependsOnSplit(result))
        found.insert(result);
  return found;
}

} // namespace cleave
