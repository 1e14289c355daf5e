//===- OperatorName.h - Which operators a plan may call ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
#define CLEAVE_CODEGEN_PLAN_OPERATORNAME_H

#include "llvm/ADT/StringRef.h"

namespace cleave::plan {

/// Whether `name` is written `namespace::name` or `namespace::name.overload`, in letters, digits and
/// underscores.
bool isOperatorName(llvm::StringRef name);

/// Whether a plan may call the operator: a well-formed name that does not read or write files, print, talk to
/// other processes, change process-wide settings or skip libtorch's own bounds checks. Of `prim::` only a
/// list of pure operators passes. Operators of other packages pass: none is there unless the user loads its
/// library.
bool isOperatorAllowed(llvm::StringRef name);

/// Whether the operator waits for the other ranks of a tensor group: those of `spmd::` but `spmd::shard`.
bool isExchange(llvm::StringRef name);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
