//===- DType.cpp - Names and sizes of element types -----------------------===//
#include "codegen/plan/Safetensors.h"

namespace cleave::plan {

namespace {
struct DTypeFacts {
  llvm::StringRef name;
  int64_t bytes;
};
} // namespace

/// In the order of the enumeration.
static constexpr DTypeFacts kFacts[] = {
    {"unknown", 0}, {"bool", 1},      {"uint8", 1},       {"int8", 1},          {"int16", 2},
    {"int32", 4},   {"int64", 8},     {"float16", 2},     {"bfloat16", 2},      {"float32", 4},
    {"float64", 8}, {"complex64", 8}, {"complex128", 16}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
static_assert(std::size(kFacts) == static_cast<size_t>(DType::MAX) + 1);

/// A value from an untrusted file may be out of range.
static const DTypeFacts &factsOf(DType dtype) {
  auto index = static_cast<size_t>(dtype);
  return index < std::size(kFacts) ? kFacts[index] : kFacts[0];
}

int64_t bytesOf(DType dtype) { return factsOf(dtype).bytes; }

llvm::StringRef nameOf(DType dtype) { return factsOf(dtype).name; }

} // namespace cleave::plan
