//===- ProgramEmitter.h - A stage as an instruction list --------*- C++ -*-===//
//
// Private to codegen/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PROGRAMEMITTER_H
#define CLEAVE_CODEGEN_PROGRAMEMITTER_H

#include "codegen/Buckets.h"
#include "codegen/CapturePoints.h"
#include "codegen/PlanTypes.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <set>
#include <string>

namespace cleave {

/// Strings of the plan's tables, numbered in the order of their first use.
class StringTable {
public:
  uint32_t add(llvm::StringRef text) { return indices.insert({text.str(), indices.size()}).first->second; }
  std::vector<std::string> take() {
    std::vector<std::string> result;
    for (auto &entry : indices)
      result.push_back(entry.first);
    return result;
  }

private:
  llvm::MapVector<std::string, uint32_t, std::map<std::string, unsigned>> indices;
};

/// Tables that all programs of a plan share.
struct PlanTables {
  StringTable operators, paths;
  /// Weights by name, in the order of their first use.
  llvm::MapVector<llvm::StringRef, ParamOp> weights;
  /// States by name, in the order of their first use.
  llvm::MapVector<std::string, std::unique_ptr<plan::State>, std::map<std::string, unsigned>> states;
  StepSums sums;
  /// Names of weights that an update writes.
  std::set<std::string> trainable;
};

/// Emits one program of a plan.
class ProgramEmitter {
public:
  ProgramEmitter(PlanTables &tables, const SymbolIndices &symbols) : tables(tables), symbols(symbols) {}

  /// Fails with a diagnostic on an operation without an instruction. Takes observes out of the stage.
  mlir::FailureOr<std::unique_ptr<plan::Program>> emit(StageOp stage, uint32_t tpRank);

  /// Capture points of what was observed in the stage, each with the slot of one rank.
  std::vector<std::unique_ptr<plan::CapturePoint>> takeCapturePoints() { return std::move(captures); }

private:
  /// Emits the operations that prepack weights, which come first because they run once.
  mlir::LogicalResult emitSetup(mlir::Block &body);
  mlir::LogicalResult emitBlock(mlir::Block &block, uint32_t index);
  mlir::LogicalResult emitOp(mlir::Operation *op, plan::Block &block, uint32_t index);
  /// Emits a value that exists before the program runs: a constant, size or weight. False for other
  /// operations.
  bool emitFixed(mlir::Operation *op);
  /// Where slots of the block are written, and read last.
  struct Lifetime {
    size_t written, lastRead;
  };
  llvm::MapVector<uint32_t, Lifetime> lifetimesIn(const plan::Block &block) const;
  /// Adds the slots that are captured though nothing reads them.
  void keepCaptured(llvm::ArrayRef<Observed> observed, llvm::SetVector<uint32_t> &kept) const;
  void addCapturePoint(const Observed &observed, uint32_t tpRank,
                       const llvm::MapVector<uint32_t, Lifetime> &lifetimes,
                       const llvm::SetVector<uint32_t> &kept);
  std::unique_ptr<plan::Instruction> instructionFor(mlir::Operation *op);
  mlir::LogicalResult emitCall(OperatorOp op, plan::Block &block);
  /// Index of a state in the plan's table; adds it if needed.
  uint32_t stateOf(ReadStateOp state);
  uint32_t sumOf(llvm::StringRef name, mlir::Type part, std::optional<ShardingAttr> shard);
  /// Fills in the kind of instruction; false for operations that no instruction stands for.
  bool setKind(plan::Instruction &instruction, mlir::Operation *op);
  bool setTrainingKind(plan::Instruction &instruction, mlir::Operation *op);
  void setUpdate(plan::Instruction &instruction, UpdateWeightOp op);
  mlir::LogicalResult emitNested(mlir::Operation *op, plan::Block &block, uint32_t index);
  void addReleases(plan::Block &block, const llvm::SetVector<uint32_t> &kept);
  /// Collects the slots that an instruction reads, including in its blocks.
  void collectReads(const plan::Instruction &instruction, llvm::SetVector<uint32_t> &reads) const;
  uint32_t define(mlir::Value value);
  /// The slot of a value that was defined before; for another value, a slot out of range, so that `validate`
  /// refuses the plan.
  uint32_t slot(mlir::Value value) const;

  PlanTables &tables;
  const SymbolIndices &symbols;
  std::unique_ptr<plan::Program> program;
  llvm::DenseMap<mlir::Value, uint32_t> slots;
  std::vector<std::unique_ptr<plan::CapturePoint>> captures;
  /// By operation of the stage's own block: the instructions before it.
  llvm::DenseMap<mlir::Operation *, uint32_t> instructionsBefore;
  uint32_t stage = 0;
};

} // namespace cleave

#endif // CLEAVE_CODEGEN_PROGRAMEMITTER_H
