//===- Operators.h - The operators of a plan, resolved ----------*- C++ -*-===//
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

/// Loads a library that registers operators with libtorch; it stays loaded. Plans may then call what it has
/// registered: whoever loads it vouches for that.
llvm::Error loadLibrary(const std::string &path);

/// Calls `load`, and lets plans call the operators that it registers with libtorch. `load` calls neither this
/// nor `loadLibrary`.
llvm::Error allowRegistered(llvm::function_ref<llvm::Error()> load);

/// Fails where the plan calls operators that are not listed (docs/operators.md), come from no library, and
/// are not among `allowed`: names with or without overload (`aten::from_file`). The error names all of them.
llvm::Error checkOperators(const plan::Plan &plan, llvm::ArrayRef<std::string> allowed);

struct ResolvedOperator {
  c10::FunctionSchema schema;
  torch::jit::Operation operation;
  /// The same, for devices that are CPUs.
  torch::jit::Operation onCpu;
};

/// The operators of a plan's table, each looked up in libtorch's registry once, when it is first asked for.
class Operators {
public:
  explicit Operators(const plan::Plan &plan);

  const std::string &name(uint32_t index) const { return names[index]; }
  /// Fails on names that nobody registered, and on operators that write to an operand: values are shared
  /// between stages, requests and the caller, so a plan holds none. The result lives as long as this object.
  llvm::Expected<ResolvedOperator *> resolve(uint32_t index);

private:
  llvm::ArrayRef<std::string> names;
  std::vector<std::unique_ptr<ResolvedOperator>> resolved;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_OPERATORS_H
