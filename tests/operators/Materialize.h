//===- Materialize.h - The values of a call ---------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_MATERIALIZE_H
#define CLEAVE_TESTS_OPERATORS_MATERIALIZE_H

#include "runtime/operators/Operators.h"
#include "tests/operators/CallText.h"
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

namespace cleave::operators {

/// The operator as plans call it, guards included; null where there is none. Lives as long as the process.
runtime::ResolvedOperator *resolveOperator(const std::string &name);

/// Makes the value that `value` describes; throws where that fails. The same numbers for the same `seed`.
c10::IValue materialize(const CallValue &value, uint64_t seed);

/// Most elements of a tensor's storage.
constexpr int64_t kMaxElements = 1 << 20;

/// Numbers that kernels forget: limits of types, sizes around SIMD widths and around 2^31.
llvm::ArrayRef<int64_t> extremeIntegers();
llvm::ArrayRef<double> extremeReals();

/// Text by which results are compared: sizes and bytes of all elements. Reads every one of them. Throws where
/// a tensor is none of those that plans compute with: dense, in main memory, inside its storage.
std::string digest(const c10::IValue &value);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_MATERIALIZE_H
