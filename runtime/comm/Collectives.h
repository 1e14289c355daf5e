//===- Collectives.h - Calls of collectives by their operands ---*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_COLLECTIVES_H
#define CLEAVE_RUNTIME_COMM_COLLECTIVES_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/Communicator.h"
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// Calls a collective of `group` on the operands that collectives/Collectives.h lists for its operator, which
/// are all that `stack` holds, and replaces them by its result. Throws c10::Error on operands of other kinds,
/// where `group` is null, and what Communicator throws.
void callCollective(Communicator *group, CollectiveOp operation, torch::jit::Stack &stack);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COLLECTIVES_H
