//===- Notes.h - What a person should know of a plan ------------*- C++ -*-===//
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

/// The largest modules that lie in the stage, in program order: `transformer.h.0`, …, `lm_head`. A module
/// that spans stages is named by its parts.
std::vector<std::string> topModules(StageOp stage);

/// Sizes at which the model does not run, weights that several stages hold, the operation that makes balance
/// impossible, what keeps the batch whole, operators without semantics, those that draw random numbers, those
/// whose types could not be inferred or that always fail, and states whose types change. Kinds: `multiple`,
/// `range`, `tied-weight`, `balance`, `batch`, `no-semantics`, `replicated`, `random`, `unlisted-operator`,
/// `unknown-type`, `fails`.
std::vector<plan::Note> notesOf(mlir::func::FuncOp function, const InferredValues &inferred);

} // namespace cleave

#endif // CLEAVE_CODEGEN_NOTES_H
