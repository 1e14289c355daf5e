//===- TypeCheck.h - Checks predicted types ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_TYPECHECK_H
#define CLEAVE_RUNTIME_BASE_TYPECHECK_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The tensor types that a plan predicts for the slots of a program.
class TypeCheck {
public:
  TypeCheck(const plan::Program &program, const plan::Signature &signature);

  /// Throws where `value` does not have the type predicted for `slot`: dtype, number of dimensions, a size,
  /// or the stride of a dimension with more than one element. A slot without a prediction accepts any value.
  void check(uint32_t slot, const c10::IValue &value, llvm::ArrayRef<int64_t> symbols) const;

private:
  /// By slot; null where nothing is predicted.
  std::vector<const plan::TensorType *> types;
  std::vector<std::string> symbolNames;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_TYPECHECK_H
