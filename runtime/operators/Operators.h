//===- Operators.h - Resolved operators of a plan ---------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_OPERATORS_H
#define CLEAVE_RUNTIME_OPERATORS_OPERATORS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Loads a library that registers operators with libtorch; it stays loaded. Plans may then call these
/// operators, so load only trusted libraries.
llvm::Error loadLibrary(const std::string &path);

/// Calls `load`, and allows plans to call the operators that it registers with libtorch. `load` must not call
/// this function or `loadLibrary`.
llvm::Error allowRegistered(llvm::function_ref<llvm::Error()> load);

/// Fails where the plan calls operators that are not listed (docs/operators.md), come from no library, and
/// are not among `allowed`: names with or without overload (`aten::from_file`). The error names all of them.
llvm::Error checkOperators(const plan::Plan &plan, llvm::ArrayRef<std::string> allowed);

struct ResolvedOperator {
  c10::FunctionSchema schema;
  /// The operation on GPUs.
  torch::jit::Operation operation;
  /// The operation on CPU devices.
  torch::jit::Operation onCpu;
};

/// The operators of a plan. Each one is looked up in libtorch's registry once, on first use.
class Operators {
public:
  explicit Operators(const plan::Plan &plan);

  const std::string &name(uint32_t index) const { return names[index]; }
  /// Fails on unregistered names, and on operators that write to an operand: stages, requests and the caller
  /// share values. The result lives as long as this object.
  llvm::Expected<ResolvedOperator *> resolve(uint32_t index);

private:
  llvm::ArrayRef<std::string> names;
  std::vector<std::unique_ptr<ResolvedOperator>> resolved;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_OPERATORS_H
