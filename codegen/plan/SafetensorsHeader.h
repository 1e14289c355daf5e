//===- SafetensorsHeader.h - The JSON at the start of a file ----*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H
#define CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H

#include "codegen/plan/Safetensors.h"
#include <optional>

namespace cleave::plan {

/// The length of the header, as stored in front of it.
inline constexpr uint64_t kHeaderLengthBytes = 8;

/// The tensors that `json` describes, in the order of their data; offsets count from the start of the file,
/// whose data is `dataBytes` long and follows the header. Fails unless names are unique and the tensors cover
/// the data exactly.
llvm::Expected<std::vector<TensorEntry>> parseHeader(llvm::StringRef json, uint64_t dataBytes);

/// The length of the header and the header, padded with spaces so that data starts on a 64-byte boundary.
/// Sets the offset of each entry; `entries` stand in the order of their data and have their `bytes`. Fails on
/// a dtype without a word in the format.
llvm::Expected<std::string> formatHeader(llvm::MutableArrayRef<TensorEntry> entries);

/// Bytes of a tensor; nothing when a size is negative, the dtype unknown or the product beyond int64.
std::optional<uint64_t> bytesOf(DType dtype, llvm::ArrayRef<int64_t> shape);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SAFETENSORSHEADER_H
