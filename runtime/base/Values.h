//===- Values.h - The plan's constants and types as libtorch's --*- C++ -*-===//
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

/// A type in TorchScript's words: `int`, `Tensor?`, `Dict(str, Tensor)`.
llvm::Expected<c10::TypePtr> parseType(llvm::StringRef text);
/// Key and value types of a dict, `str,Tensor`.
llvm::Expected<std::pair<c10::TypePtr, c10::TypePtr>> parseDictTypes(llvm::StringRef text);

/// Throws c10::Error where `item` is no value of a list or dict of `type`: libtorch believes what these say
/// of their type.
void checkElement(const c10::IValue &item, const c10::Type &type);

/// Throws c10::Error where a dict of these entries (key, value, key, …) would take far more memory than they
/// do. libtorch's table doubles until each key is near the place that its hash says: some twenty numbers can
/// be chosen for which it takes gigabytes.
void checkEntries(llvm::ArrayRef<c10::IValue> entries);

llvm::Expected<c10::IValue> toValue(const plan::Constant &constant);

/// `value` with its tensors on `place`: itself where they are there. From main memory a GPU takes them by way
/// of pinned memory, in the order of what this thread calls there, and the thread goes on. Scalars on the CPU
/// stay; operators take them beside tensors of any device, and their numbers are read without waiting for
/// one.
c10::IValue movedTo(c10::Device place, c10::IValue value);

/// Whether each element of `tensor` has memory of its own, as far as strides in order of size show it.
bool hasOwnElements(const at::Tensor &tensor);

/// `int64[4, 128]`.
std::string describe(const at::Tensor &tensor);
std::string describe(c10::ScalarType type, at::IntArrayRef sizes);
/// The same of what is expected: `int64[batch, 128]`; sizes that are not known are `?`.
std::string describe(const plan::TensorType &type, llvm::ArrayRef<std::string> symbolNames);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_VALUES_H
