//===- AttentionCores.h - What selective recomputation selects --*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_ATTENTIONCORES_H
#define CLEAVE_IR_SEMANTICS_ATTENTIONCORES_H

#include "ir/semantics/GradientFlow.h"

namespace cleave {

/// Attention scores and what is made of them (softmax, dropout), up to their product with the values.
struct AttentionCore {
  /// The product of queries and keys, and what is computed from it up to `last`, which is left out.
  llvm::SmallVector<mlir::Operation *> operations;
  /// The last contraction, of probabilities and values.
  mlir::Operation *last;
};

/// Finds the operations between two contractions neither of which takes a weight (Korthikanti et al. 2022).
/// \param operations  of the forward pass, in program order.
std::vector<AttentionCore> attentionCores(llvm::ArrayRef<mlir::Operation *> operations,
                                          const GradientFlow &flow);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_ATTENTIONCORES_H
