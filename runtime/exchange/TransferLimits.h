//===- TransferLimits.h - Limits of messages from other ranks ---*- C++ -*-===//
//
// Upper bounds on the values that ranks exchange, from the plan. Sizes that depend on the request are bounded
// by the machine's memory, as are values other than tensors of known type.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H
#define CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/SerializedValues.h"
#include <cstdint>

namespace cleave::runtime {

/// Limits of one transfer from rank `from` to rank `to`, over all signatures.
SerializedLimits limitsOfValues(const plan::Plan &plan, uint32_t from, uint32_t to);
/// Limits of the outputs that one rank sends for one request.
SerializedLimits limitsOfOutputs(const plan::Plan &plan);
/// Limits of the captured values that one rank sends for one request.
SerializedLimits limitsOfCaptured(const plan::Plan &plan);
/// Values of a command before its inputs (CommandChannel).
inline constexpr size_t kCommandWords = 6;
/// Limits of a command of rank 0.
SerializedLimits limitsOfCommand(const plan::Plan &plan);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H
