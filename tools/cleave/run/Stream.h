//===- Stream.h - Many requests in one file ---------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_STREAM_H
#define CLEAVE_TOOLS_CLEAVE_RUN_STREAM_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <vector>

namespace cleave {

/// Leaves of a signature's inputs or outputs, by request.
using Requests = std::vector<std::vector<at::Tensor>>;

/// The requests that lie one after the other along the first dimension of every input, which the signature's
/// inputs do not have. Fails where inputs differ in its size.
llvm::Expected<Requests> splitStream(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs);

/// The outputs of all requests with such a dimension in front. Fails where requests give tensors of different
/// types.
llvm::Expected<std::vector<at::Tensor>> joinStream(const plan::Signature &signature, const Requests &outputs);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_STREAM_H
