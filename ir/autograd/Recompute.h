//===- Recompute.h - Activations computed again -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
#define CLEAVE_IR_AUTOGRAD_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <string>

namespace cleave {

/// By module path: the segment that an operation belongs to, whose activations are computed again together;
/// empty: they are saved.
using SegmentOfPath = std::function<std::string(llvm::StringRef path)>;

/// Each item of a list of modules is a segment (`h.3`, for `h.3.mlp`).
std::string moduleItemSegment(llvm::StringRef path);

/// Lets the backward pass compute activations again instead of keeping them since the forward pass (Chen et
/// al. 2016). Operations of a segment are cloned in front of the first operation of its backward pass that
/// reads one of their results. Saved stay: what a segment takes from others, what the backward pass of others
/// reads of it, and results of operators that draw random numbers.
///
/// Needs the loss among the results (kLossAttr): what comes after it is the backward pass. Passes that merge
/// equal operations would undo it.
mlir::LogicalResult recompute(mlir::func::FuncOp function, const SegmentOfPath &segmentOf);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
