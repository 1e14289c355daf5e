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
/// Some operations are not in the graph, since every stage repeats them: parameters, constants, sizes, lists
/// and tuples made in the function, and *cheap* operations (masks, positions, scalar arithmetic). An
/// operation is cheap if its whole computation from the request's inputs and small buffers costs less than a
/// hundredth of a stage of its function. Operations connected by a value that is neither tensor nor scalar
/// are one node; so are the operations between a state and its update.
///
/// The nodes of a merged function (MergedSignatures) are in an order that all its functions agree on. An
/// operation of a further function that uses a weight is in one node with the operation of the first function
/// that uses it in the same module, or else first of all; so a weight is in the same stages for all
/// functions. States are joined likewise.
struct ModelGraph {
  StageGraph graph;
  /// Operations of each node, in program order.
  std::vector<std::vector<mlir::Operation *>> nodes;
  /// By index into `graph.values`: the value in the IR.
  std::vector<mlir::Value> values;
  /// By index into `graph.weightBytes`: the weight's name.
  std::vector<std::string> weightNames;

  /// The same graph with other prices: seconds of an operation on each kind of device group, bytes of a
  /// value.
  StageGraph pricedBy(llvm::function_ref<double(mlir::Operation *, uint32_t kind)> seconds,
                      llvm::function_ref<int64_t(mlir::Value)> bytes) const;
};

/// Weights up to this size (tables of positions, frequencies) do not keep an operation from being recomputed.
inline constexpr int64_t kSmallWeightBytes = 64 << 10;

/// \param kinds  the kinds of device groups that operations are priced on. An operation is a node unless it
/// is cheap on all of them.
ModelGraph buildModelGraph(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds, uint32_t stages);

/// The graphs of one function for different numbers of stages. Two graphs differ only if different operations
/// are cheap, so most numbers of stages share one.
class ModelGraphs {
public:
  /// \param kinds  the kinds of device groups that operations are priced on.
  ModelGraphs(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds);
  ~ModelGraphs();
  /// The graph for this number of stages; it lives as long as this object.
  const ModelGraph &of(uint32_t stages);
  struct Costs;

private:
  std::unique_ptr<Costs> costs;
  /// By the number of cheap operations on each kind of device group.
  std::map<std::vector<size_t>, ModelGraph> graphs;
};

/// The work of an operator's kernel in the forward pass, or of one of its backward kernels.
struct Kernel {
  OperatorOp op;
  OpWork work;
  /// The GEMM that `work.flops` counts; nothing if the kernel is no contraction.
  std::optional<GemmShape> gemm;
};

/// Seconds of the kernel's work, without dispatch overhead: at the rate measured for its shape, else by the
/// roofline max(flops / peak, bytes / bandwidth) (Williams et al. 2009).
double kernelSeconds(const Kernel &kernel, const DeviceSpec &device);

/// Seconds of a call on the slowest device of the group: a fixed dispatch overhead plus kernelSeconds.
double callSeconds(const Kernel &kernel, const DeviceGroup &group);

/// Seconds of one operation: callSeconds of its kernel, or the time of a collective in the group's slowest
/// tensor-parallel group. In a merged function they count as often as the signature is requested.
double operationSeconds(mlir::Operation *op, const ExampleShapes &shapes, const DeviceGroup &group);

/// Bytes of a value that one stage sends to another.
int64_t bytesSent(mlir::Value value, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_MODELGRAPH_H
