//===- Values.h - Plan constants and types ----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_VALUES_H
#define CLEAVE_RUNTIME_BASE_VALUES_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <string>
#include <utility>

namespace cleave::runtime {

/// Parses a type in TorchScript syntax: `int`, `Tensor?`, `Dict(str, Tensor)`.
llvm::Expected<c10::TypePtr> parseType(llvm::StringRef text);
/// Parses the key and value types of a dict: `str,Tensor`.
llvm::Expected<std::pair<c10::TypePtr, c10::TypePtr>> parseDictTypes(llvm::StringRef text);

/// Throws c10::Error where `item` is not an element of a list or dict of `type`. libtorch trusts the declared
/// type and does not check.
void checkElement(const c10::IValue &item, const c10::Type &type);

/// Throws c10::Error where a dict of these entries (key, value, key, …) would take far more memory than the
/// entries do. libtorch's hash table doubles until each key is near the slot of its hash, so some twenty
/// crafted integer keys can make it take gigabytes.
void checkEntries(llvm::ArrayRef<c10::IValue> entries);

llvm::Expected<c10::IValue> toValue(const plan::Constant &constant);

/// `value` with its tensors on the device `device`; `value` itself where they are there already. A copy from
/// the CPU to a GPU goes through pinned memory, asynchronously, on the current stream. CPU scalars are not
/// moved: operators accept them beside tensors of any device, and reading them never synchronizes.
c10::IValue movedTo(c10::Device device, c10::IValue value);

/// True if no two elements of `tensor` share memory. Decided from sizes and strides alone; may be false for
/// interleaved strides that do not overlap.
bool hasNoInternalOverlap(const at::Tensor &tensor);

/// `int64[4, 128]`.
std::string describe(const at::Tensor &tensor);
std::string describe(c10::ScalarType type, at::IntArrayRef sizes);
/// As above, for an expected type: `int64[batch, 128]`. Sizes that are not known are `?`.
std::string describe(const plan::TensorType &type, llvm::ArrayRef<std::string> symbolNames);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_VALUES_H
