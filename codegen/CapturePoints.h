//===- CapturePoints.h - Observes of a stage as capture points --*- C++ -*-===//
//
// Private to codegen/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_CAPTUREPOINTS_H
#define CLEAVE_CODEGEN_CAPTUREPOINTS_H

#include "codegen/PlanTypes.h"
#include "ir/Cleave.h"
#include <string>
#include <vector>

namespace cleave {

/// An observe that was taken out of a stage.
struct Observed {
  mlir::Value value;
  /// The operation before which it was.
  mlir::Operation *next;
  std::string path;
  uint32_t index, call;
  bool isDeclared, isWritable, isPartial;
  /// What the tensor-parallel ranks have of the value; nothing where each has everything.
  std::optional<ShardingAttr> shard;
  /// The type of the whole value.
  mlir::Type type;
};

/// True if a new value, from the observe on, reaches what a new result of the module would reach, and no
/// more.
bool isWritable(ObserveOp observe);

/// Takes observes and boundaries out of the stage. Those of other phases than forward, and those in regions,
/// give nothing.
std::vector<Observed> takeObserves(StageOp stage);

/// The capture point of an observe, with the slot of one rank.
std::unique_ptr<plan::CapturePoint> capturePointOf(const Observed &observed, uint32_t stage, uint32_t slot,
                                                   uint32_t after, uint32_t tpRank,
                                                   const SymbolIndices &symbols);

/// Puts together the points of the tensor-parallel ranks of one signature.
class CapturePointTable {
public:
  /// Adds the points of the program of one tensor-parallel rank; ranks come in order.
  void add(std::vector<std::unique_ptr<plan::CapturePoint>> points, uint32_t tpRank);
  /// Those that each of `ranks` ranks has.
  std::vector<std::unique_ptr<plan::CapturePoint>> take(uint32_t ranks);

private:
  std::vector<std::unique_ptr<plan::CapturePoint>> points;
};

} // namespace cleave

#endif // CLEAVE_CODEGEN_CAPTUREPOINTS_H
