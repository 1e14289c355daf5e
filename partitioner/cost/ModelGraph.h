//===- ModelGraph.h - A function as the stage cutter's graph ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_MODELGRAPH_H
#define CLEAVE_PARTITIONER_COST_MODELGRAPH_H

#include "ir/ExampleShapes.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/graph/StageGraph.h"
#include "partitioner/machine/DeviceGroup.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <memory>

namespace cleave {

/// A function's operations as nodes of a StageGraph, in program order.
///
/// Not in the graph, since every stage makes its own: parameters, constants, sizes, lists and tuples made in
/// sight, and *cheap* operations, whose whole computation from the request's inputs and small buffers costs
/// less than a hundredth of a stage (masks, positions, scalar arithmetic). Operations that a value other than
/// a tensor or scalar connects are one node, and so are those between a state and its update.
struct ModelGraph {
  StageGraph graph;
  /// Operations of each node, in program order.
  std::vector<std::vector<mlir::Operation *>> nodes;
  /// What `graph.values` are.
  std::vector<mlir::Value> values;
  /// Names of `graph.weightBytes`.
  std::vector<std::string> weightNames;

  /// The same graph with other seconds of operations, on each kind of group, and bytes of values.
  StageGraph pricedBy(llvm::function_ref<double(mlir::Operation *, uint32_t kind)> seconds,
                      llvm::function_ref<int64_t(mlir::Value)> bytes) const;
};

/// \param kinds  the groups that operations are priced on. What is not cheap on one of them is a node.
ModelGraph buildModelGraph(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds, uint32_t stages);

/// The graphs of one function for any numbers of stages. They differ in what is cheap alone, and mostly not
/// in that.
class ModelGraphs {
public:
  /// \param kinds  the groups that operations are priced on.
  ModelGraphs(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds);
  ~ModelGraphs();
  /// Lives as long as this.
  const ModelGraph &of(uint32_t stages);
  struct Costs;

private:
  std::unique_ptr<Costs> costs;
  /// By how many operations are cheap enough, on each kind of group.
  std::map<std::vector<size_t>, ModelGraph> graphs;
};

/// What an operator's kernel, or one of its backward pass, does.
struct Kernel {
  OperatorOp op;
  OpWork work;
  /// The products that `work.flops` are.
  std::optional<GemmShape> product;
};

/// Its work at the rate that was measured for its shape, or by the roofline of Williams et al. 2009,
/// max(flops / peak, bytes / bandwidth).
double kernelSeconds(const Kernel &kernel, const DeviceSpec &device);

/// A fixed cost of calling it, and its work (kernelSeconds), on the device of the group that is slowest at
/// it.
double callSeconds(const Kernel &kernel, const DeviceGroup &group);

/// Seconds of one operation: of its kernel (callSeconds), or what the group's tensor groups take for a
/// collective.
double operationSeconds(mlir::Operation *op, const ExampleShapes &shapes, const DeviceGroup &group);

/// Of a value that one stage sends another.
int64_t bytesSent(mlir::Value value, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_MODELGRAPH_H
