//===- SignatureInputs.h - Inputs of a request, by name ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_SIGNATUREINPUTS_H
#define CLEAVE_RUNTIME_EXCHANGE_SIGNATUREINPUTS_H

#include "codegen/plan/Plan.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Index of the plan's signature of this name. Fails if there is none. `file` is the plan's name in messages.
llvm::Expected<uint32_t> signatureNamed(const plan::Plan &plan, llvm::StringRef name, llvm::StringRef file);

/// `input_ids int64[batch, seq], attention_mask int64[batch, seq]`.
std::string describeInputs(const plan::Signature &signature);

/// Finds the leaves of the signature's inputs among the named tensors of a file. Fails on missing inputs, and
/// on tensors that are not inputs. `file` is its name in messages.
llvm::Expected<std::vector<at::Tensor>>
matchInputs(const plan::Signature &signature, llvm::ArrayRef<NamedTensor> tensors, llvm::StringRef file);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_SIGNATUREINPUTS_H
