//===- OperatorGuards.h - Arguments that kernels trust ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORGUARDS_H
#define CLEAVE_RUNTIME_OPERATORGUARDS_H

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// `operation` behind checks of arguments that libtorch's kernels use unchecked, so that a plan from a
/// stranger reads and writes no memory but that of its tensors:
///
/// - a dtype, layout, memory format or device must be one that plans compute with: dense tensors on CPUs and
/// GPUs;
/// - indices into a pooled tensor or into rows of a table must lie inside it;
/// - memory that `empty` and its like give is zero.
///
/// The result throws c10::Error where an argument is refused. It is `operation` itself where nothing has to
/// be checked.
/// \param onCpu  whether the operator runs on the CPU: it may then name no other device. Elsewhere the
/// runtime has put the
///               place of the rank in place of every device.
torch::jit::Operation guarded(const c10::FunctionSchema &schema, torch::jit::Operation operation, bool onCpu);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORGUARDS_H
