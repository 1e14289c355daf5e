//===- ValidateParts.h - The checks that make up `validate` -----*- C++ -*-===//
//
// After `validate` the runtime indexes without checks, so everything here takes its argument as hostile:
// pointers may be null, enumerations out of range, sizes anything. `where` begins every message.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_VALIDATEPARTS_H
#define CLEAVE_CODEGEN_PLAN_VALIDATEPARTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <vector>

namespace cleave::plan {

inline llvm::Error invalid(const llvm::Twine &where, const llvm::Twine &what) {
  return llvm::createStringError(where + ": " + what);
}

template <typename T> bool hasNull(const std::vector<std::unique_ptr<T>> &table) {
  return llvm::is_contained(table, nullptr);
}

//===- Values (ValidateValues.cpp) ----------------------------------------===//

/// UTF-8 without control characters, so that it can be shown on a terminal.
llvm::Error checkText(const llvm::Twine &where, llvm::StringRef text);
/// The same, and no longer than any name is.
llvm::Error checkPath(const llvm::Twine &where, llvm::StringRef path);
/// The same, and not empty.
llvm::Error checkName(const llvm::Twine &where, llvm::StringRef name);
/// The type of a list's elements, or of a dict's keys and values, in TorchScript's words.
llvm::Error checkElementType(const llvm::Twine &where, llvm::StringRef words);
llvm::Error checkConstant(const llvm::Twine &where, const Constant *constant);
/// Dimensions may be unknown; if they are not, the tensor's bytes fit an int64 where symbols have the sizes
/// `traced`.
llvm::Error checkType(const llvm::Twine &where, const TensorType *type, llvm::ArrayRef<int64_t> traced);
/// The sizes of a weight or shard.
llvm::Error checkShape(const llvm::Twine &where, DType dtype, llvm::ArrayRef<int64_t> shape);
/// Nests `leaves` leaves, each once.
llvm::Error checkTree(const llvm::Twine &where, const Tree *tree, size_t leaves);

//===- Tables -------------------------------------------------------------===//

/// The sizes that the symbols of a signature had in the trace.
std::vector<int64_t> tracedSizes(const Signature &signature);

/// Symbols, inputs, outputs and their trees; not yet which results the outputs are. (ValidateSignature.cpp)
llvm::Error checkSignature(const Plan &plan, const Signature &signature);
/// Weights, their shards and the files that hold them. (ValidateWeights.cpp)
llvm::Error checkWeights(const Plan &plan);
llvm::Error checkShardFiles(const Plan &plan);
/// One program by itself. Mesh, stages, signatures and weights have been checked. (ValidateProgram.cpp)
llvm::Error checkProgram(const Plan &plan, const Program &program);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_VALIDATEPARTS_H
