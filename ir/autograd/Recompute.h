//===- Recompute.h - Activation recomputation -------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
#define CLEAVE_IR_AUTOGRAD_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <string>

namespace cleave {

/// Maps a module path to its recomputation segment; empty: its activations are saved for the backward pass.
using SegmentFn = std::function<std::string(llvm::StringRef path)>;

/// The item of the outermost ModuleList or Sequential in the path (`h.3` for `h.3.mlp`); empty if there is
/// none.
std::string moduleListItemSegment(llvm::StringRef path);

/// On a function: the kinds of recomputation (strings) that found nothing to recompute.
inline constexpr llvm::StringLiteral kNotRecomputedAttr = "cleave.not_recomputed";

/// What is recomputed of a segment, and not saved.
enum class RecomputeKind {
  /// All activations (Chen et al. 2016).
  Full,
  /// Attention cores alone (Korthikanti et al. 2022); see attentionCores.
  Selective,
  /// Activations that are cheap to compute, chosen so that the fewest bytes are saved: results of known
  /// operators whose time goes to memory, other than contractions and random ones. See
  /// recomputedByMinimumCut.
  MinimumCut,
};
/// `full`, `selective` or `minimum-cut`, as options have it.
llvm::StringRef nameOf(RecomputeKind kind);

/// Activation recomputation (checkpointing). Clones forward operations in front of the first backward
/// operation of their segment that reads them, so that their results need not be saved. Saved are: inputs of
/// a segment, values that backward operations of other segments read, results of operators that draw from a
/// generator, and what backward operations with regions read. Inputs of a segment are saved even if the
/// backward pass did not need them before, so the peak may rise. Run it after passes that merge equal
/// operations (CSE), which would undo it.
///
/// Operations after the loss (kLossAttr) are the backward pass. Fails with a diagnostic if no result is
/// marked as the loss. Returns the number of clones.
mlir::FailureOr<unsigned> recompute(mlir::func::FuncOp function, RecomputeKind kind,
                                    const SegmentFn &segmentOf);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_RECOMPUTE_H
