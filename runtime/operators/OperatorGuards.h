//===- OperatorGuards.h - Checks that kernels lack --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_OPERATORGUARDS_H
#define CLEAVE_RUNTIME_OPERATORS_OPERATORGUARDS_H

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// Wraps `operation` in checks of arguments that libtorch's kernels do not check, so that an untrusted plan
/// cannot access memory outside its tensors:
///
/// - dtypes must be ones that plans support (or qint8, quint8, qint32), layouts strided, memory formats known
///   to libtorch and, for operators on the CPU, devices the CPU;
/// - tensors quantized by channel must have as many scales as channels, and go only to operators that read
///   the scales;
/// - arguments of single operators must match each other (ArgumentChecks.h), such as indices of max pooling;
/// - tensors of `aten::empty` and its variants are filled with zeros.
///
/// The result throws c10::Error where a check fails. It is `operation` itself where nothing has to be
/// checked.
///
/// \param onCpu  the operator runs on the CPU and may name no other device. Otherwise the runtime has already
///     replaced every device argument by the rank's device.
torch::jit::Operation guarded(const c10::FunctionSchema &schema, torch::jit::Operation operation, bool onCpu);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_OPERATORGUARDS_H
