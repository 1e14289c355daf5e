//===- SafetensorsHeader.h - JSON header of safetensors files ---*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H
#define CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H

#include "codegen/plan/Safetensors.h"
#include <optional>

namespace cleave::plan {

/// Bytes of the header length that stands before the header.
inline constexpr uint64_t kHeaderLengthBytes = 8;

/// Parses the tensors of `json`, in the order of their data, with offsets from the start of the file. \p
/// dataBytes of data follow the header. Fails unless names are unique and the tensors cover the data exactly.
llvm::Expected<std::vector<TensorEntry>> parseHeader(llvm::StringRef json, uint64_t dataBytes);

/// The header length and the header, padded with spaces so that data starts on a 64-byte boundary. Sets the
/// offset of each entry; `entries` must be in the order of their data and have their `bytes`. Fails on a
/// dtype that the format lacks.
llvm::Expected<std::string> formatHeader(llvm::MutableArrayRef<TensorEntry> entries);

/// Bytes of a tensor; nothing if a size is negative, the dtype unknown, or the product overflows int64.
std::optional<uint64_t> bytesOf(DType dtype, llvm::ArrayRef<int64_t> shape);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H
