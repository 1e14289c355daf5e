//===- ValidateParts.h - Parts of `validate` --------------------*- C++ -*-===//
//
// After `validate`, the runtime indexes without checks, so every function here treats its argument as
// hostile: pointers may be null, enumerations out of range, sizes arbitrary. Every message begins with
// `where`.
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
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace cleave::plan {

inline llvm::Error invalid(const llvm::Twine &where, const llvm::Twine &what) {
  return llvm::createStringError(where + ": " + what);
}

template <typename T> bool hasNull(const std::vector<std::unique_ptr<T>> &table) {
  return llvm::is_contained(table, nullptr);
}

//===- Values (ValidateValues.cpp) ----------------------------------------===//

/// UTF-8 without control characters, so that a terminal can show it.
llvm::Error checkText(const llvm::Twine &where, llvm::StringRef text);
/// checkText, and no longer than the limit of names.
llvm::Error checkPath(const llvm::Twine &where, llvm::StringRef path);
/// checkPath, and not empty.
llvm::Error checkName(const llvm::Twine &where, llvm::StringRef name);
/// The type of a list's elements, or of a dict's keys and values, as TorchScript writes it.
llvm::Error checkElementType(const llvm::Twine &where, llvm::StringRef words);
llvm::Error checkConstant(const llvm::Twine &where, const Constant *constant);
/// Dimensions may be unknown. If all are known, the tensor's bytes must fit an int64 at the example sizes
/// `traced`.
llvm::Error checkType(const llvm::Twine &where, const TensorType *type, llvm::ArrayRef<int64_t> traced);
/// Checks the sizes of a weight or shard.
llvm::Error checkShape(const llvm::Twine &where, DType dtype, llvm::ArrayRef<int64_t> shape);
/// Checks what a part holds of a whole with these sizes: dimensions ascending, ranges within the whole, in
/// order and disjoint. An unknown size is negative. Returns the sizes of the part.
llvm::Expected<std::vector<int64_t>> partShape(const llvm::Twine &where, llvm::ArrayRef<int64_t> whole,
                                               const std::vector<std::unique_ptr<DimRanges>> &ranges);
/// By dimension: the size, or -1 if it is not known without a request.
std::vector<int64_t> knownSizes(const TensorType &type);
/// The tree must contain each of `leaves` leaves exactly once.
llvm::Error checkTree(const llvm::Twine &where, const Tree *tree, size_t leaves);

//===- Tables -------------------------------------------------------------===//

/// By symbol of a signature: its size in the example inputs.
std::vector<int64_t> tracedSizes(const Signature &signature);

/// Checks symbols, inputs, outputs and their trees, but not that the stages and result indices of outputs
/// exist. (ValidateSignature.cpp)
llvm::Error checkSignature(const Plan &plan, const Signature &signature);
/// Check weights, their shards and the files that hold them. (ValidateWeights.cpp)
llvm::Error checkWeights(const Plan &plan);
llvm::Error checkShardFiles(const Plan &plan);
/// (ValidateStates.cpp)
llvm::Error checkStates(const Plan &plan);
/// Check groups, and the buckets that sum states over groups. (ValidateGroups.cpp)
llvm::Error checkGroups(const Plan &plan);
llvm::Error checkBuckets(const Plan &plan);
/// By signature, stage, tp rank and phase.
using ProgramTable = std::map<std::tuple<uint32_t, uint32_t, uint32_t, Phase>, const Program *>;
/// Checks where captured values are, after programs. (ValidateCaptures.cpp)
llvm::Error checkCapturePoints(const Plan &plan, const ProgramTable &table);
/// Checks one program by itself, after mesh, stages, signatures and weights. (ValidateProgram.cpp)
llvm::Error checkProgram(const Plan &plan, const Program &program);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_VALIDATEPARTS_H
