//===- RequestStream.h - Many requests in one file --------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_REQUESTSTREAM_H
#define CLEAVE_TOOLS_CLEAVE_RUN_REQUESTSTREAM_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <vector>

namespace cleave {

/// By request: leaves of a signature's inputs or outputs.
using Requests = std::vector<std::vector<at::Tensor>>;

/// Splits inputs along an extra first dimension into requests. Fails if inputs differ in its size.
llvm::Expected<Requests> splitRequests(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs);

/// Stacks the outputs of all requests along such a dimension. Fails if requests give tensors of different
/// types.
llvm::Expected<std::vector<at::Tensor>> joinRequests(const plan::Signature &signature,
                                                     const Requests &outputs);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_REQUESTSTREAM_H
