//===- Attributes.h - Where attributes stand --------------------*- C++ -*-===//
//
// Names of the attributes that passes and importers put on functions, their arguments, weights and operators,
// and typed access to them. The dialect refuses others that begin with `cleave.`, and these elsewhere.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_ATTRIBUTES_H
#define CLEAVE_IR_ATTRIBUTES_H

#include "ir/Cleave.h"

namespace cleave {

/// The name of an attribute whose values are of one type.
template <typename Value> class AttributeName {
public:
  constexpr explicit AttributeName(llvm::StringLiteral name) : name(name) {}
  operator llvm::StringRef() const { return name; }

  /// Null where there is none.
  Value of(mlir::Operation *op) const { return op->getAttrOfType<Value>(name); }
  /// \param value  null: there is to be none.
  void set(mlir::Operation *op, Value value) const {
    if (value)
      op->setAttr(name, value);
    else
      op->removeAttr(name);
  }

private:
  llvm::StringLiteral name;
};

// Of a function, from its import.
/// Left out where no dimension has a name.
inline constexpr AttributeName<NamedDimsAttr> kNamedDimsAttr("cleave.named_dims");
/// It is trained. Random numbers may then be any, as dropout's are: each rank and micro-batch draws its own.
inline constexpr AttributeName<mlir::UnitAttr> kTrainingAttr("cleave.training");
// A tree is one of
//   i            leaf i of the arguments or results
//   ["none"]
//   ["tuple", t…]   ["list", t…]   ["dict", "key", t, …]
//   ["fixed", value]   a scalar that is part of the program
inline constexpr llvm::StringLiteral kInputTreeAttr = "cleave.input_tree";
inline constexpr llvm::StringLiteral kOutputTreeAttr = "cleave.output_tree";

// Of its arguments and results.
inline constexpr llvm::StringLiteral kNameAttr = "cleave.name";
inline constexpr llvm::StringLiteral kRoleAttr = "cleave.role";

// Of a function, from passes.
/// The dtype of its products, where they were lowered.
inline constexpr AttributeName<mlir::TypeAttr> kPrecisionAttr("cleave.precision");
/// From annotate-sharding, which decides on `tp`, and assign-schedule, which decides on the rest.
inline constexpr AttributeName<MeshAttr> kMeshAttr("cleave.mesh");
inline constexpr AttributeName<TensorParallelAttr> kTensorParallelAttr("cleave.tensor_parallel");
inline constexpr AttributeName<PipelineCutAttr> kPipelineCutAttr("cleave.pipeline_cut");
inline constexpr AttributeName<ScheduleAttr> kScheduleAttr("cleave.schedule");
inline constexpr AttributeName<MachineAttr> kMachineAttr("cleave.machine");

// Of a weight, from annotate-sharding.
inline constexpr AttributeName<WeightShardingAttr> kWeightShardingAttr("cleave.weight_sharding");
inline constexpr AttributeName<PropagationSeedAttr> kPropagationSeedAttr("cleave.propagation_seed");

// Of an operation inside a function.
/// Between propagate-sharding and partition-spmd: a sharding a result, or an item of the one result that is a list;
/// `unit` for a whole tensor.
inline constexpr AttributeName<mlir::ArrayAttr> kShardingsAttr("cleave.shardings");
/// From assign-stages to split-stages: the pipeline stage that it runs in.
inline constexpr AttributeName<mlir::IntegerAttr> kStageAttr("cleave.stage");

/// As a plan can have.
inline constexpr uint32_t kMostRanks = 65536;
/// Of a tensor group.
inline constexpr unsigned kMostTensorRanks = 1024;

/// Of the function's tensor group; 1 where nothing is split.
unsigned tensorRanksOf(mlir::Operation *function);

} // namespace cleave

#endif // CLEAVE_IR_ATTRIBUTES_H
