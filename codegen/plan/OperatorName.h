//===- OperatorName.h - Which operators a plan may call ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
#define CLEAVE_CODEGEN_PLAN_OPERATORNAME_H

#include "llvm/ADT/StringRef.h"

namespace cleave::plan {

/// Whether `name` is written `namespace::name` or `namespace::name.overload`, in letters, digits and
/// underscores.
bool isOperatorName(llvm::StringRef name);

/// Whether any plan may call the operator, given with its overload: hostile calls of it were tried, and none
/// did harm (docs/operators.md). Others run where whoever runs the plan allows them.
bool isOperatorListed(llvm::StringRef name);

/// Whether any overload of `name`, given without one (`aten::add`), is listed.
bool isAnyOverloadListed(llvm::StringRef name);

/// Whether the list covers the namespace of `name`. Operators of other namespaces come from libraries.
bool isOfListedNamespace(llvm::StringRef name);

/// Whether the operator waits for the other ranks of a tensor group: those of `spmd::` but `spmd::shard`.
bool isExchange(llvm::StringRef name);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OPERATORNAME_H
