//===- Notes.h - Notes of a plan for its reader -----------------*- C++ -*-===//
//
// Private to codegen/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_NOTES_H
#define CLEAVE_CODEGEN_NOTES_H

#include "codegen/plan/Plan.h"
#include "ir/Cleave.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// The largest modules that lie completely in the stage, in program order: `transformer.h.0`, …, `lm_head`. A
/// module that spans stages is replaced by its submodules.
std::vector<std::string> topModules(StageOp stage);

/// Notes of a function, by kind: sizes at which the model does not run (`multiple`, `range`), weights that
/// several stages hold (`tied-weight`), the operation that makes balance impossible (`balance`), the obstacle
/// to splitting the batch (`batch`), terms of the loss that are computed per micro-batch (`loss`), weights
/// that all tensor-parallel ranks hold whole (`replicated`), operators without semantics (`no-semantics`),
/// operators off the list (`unlisted-operator`), operators that draw random numbers (`random`), gradients by
/// autograd
/// (`autograd`), operators and states whose types are unknown or change (`unknown-type`), and operators that
/// always fail (`fails`). The driver adds what witnesses say of sizes (`witnesses`) and what the tracer fixed
/// (`trace`).
std::vector<plan::Note> notesOf(mlir::func::FuncOp function, const InferredValues &inferred);

} // namespace cleave

#endif // CLEAVE_CODEGEN_NOTES_H
