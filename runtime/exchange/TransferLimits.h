//===- TransferLimits.h - How much a message of a peer may be ---*- C++ -*-===//
//
// What a plan says of the values that its ranks exchange. Sizes that only a request knows are bounded by the
// machine's memory, and so is what is not a tensor of known type.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H
#define CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/SerializedValues.h"
#include <cstdint>

namespace cleave::runtime {

/// Of the values of one transfer from rank `from` to rank `to`, of any signature.
SerializedLimits limitsOfValues(const plan::Plan &plan, uint32_t from, uint32_t to);
/// Of the outputs that one rank gives of a request.
SerializedLimits limitsOfOutputs(const plan::Plan &plan);
/// Of a request that rank 0 tells the others.
SerializedLimits limitsOfInputs(const plan::Plan &plan);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_TRANSFERLIMITS_H
