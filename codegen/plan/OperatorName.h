//===- OperatorName.h - Operators that a plan may call ----------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
#define CLEAVE_CODEGEN_PLAN_OPERATORNAME_H

#include "llvm/ADT/StringRef.h"

namespace cleave::plan {

/// True if `name` has the form `namespace::name` or `namespace::name.overload`, of letters, digits and
/// underscores.
bool isOperatorName(llvm::StringRef name);

/// True if any plan may call the operator, which is named with its overload: hostile calls of it were tried,
/// and none did harm (docs/operators.md). Other operators run only if the user who runs the plan allows them.
bool isOperatorListed(llvm::StringRef name);

/// True if any overload of `name`, which is named without one (`aten::add`), is listed.
bool isAnyOverloadListed(llvm::StringRef name);

/// True if the list covers the namespace of `name`. Operators of other namespaces come from libraries.
bool isOfListedNamespace(llvm::StringRef name);

/// True if the operator is a collective of a tensor-parallel group: all of `spmd::` except `spmd::shard`.
bool isCollective(llvm::StringRef name);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
