//===- Recompute.h - Activation recomputation -------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
#define CLEAVE_IR_AUTOGRAD_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <string>

namespace cleave {

/// Maps a module path to its recomputation segment; empty: its activations are saved for the backward pass.
using SegmentFn = std::function<std::string(llvm::StringRef path)>;

/// Each item of a ModuleList is a segment (`h.3`, for `h.3.mlp`).
std::string moduleListItemSegment(llvm::StringRef path);

/// Activation recomputation (checkpointing; Chen et al. 2016). Clones the forward operations of each segment
/// in front of the first backward operation of that segment that reads them, in place of saving their
/// results. Saved for the backward pass are inputs of a segment, values that backward operations of other
/// segments read, and results of random operators. Run it after passes that merge equal operations (CSE),
/// which would undo it.
///
/// Operations after the loss (kLossAttr) are the backward pass. Fails with a diagnostic if no result is
/// marked as the loss.
mlir::LogicalResult recompute(mlir::func::FuncOp function, const SegmentFn &segmentOf);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
