//===- Operators.cpp ------------------------------------------------------===//
#include "runtime/operators/Operators.h"
#include "codegen/plan/OperatorName.h"
#include "collectives/Collectives.h"
#include "random/RandomOperators.h"
#include "runtime/base/Exceptions.h"
#include "runtime/operators/CpuKernels.h"
#include "runtime/operators/GpuKernels.h"
#include "runtime/operators/OperatorGuards.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <ATen/core/jit_type.h>
#include <dlfcn.h>
#include <mutex>
#include <torch/csrc/jit/runtime/operator.h>

namespace cleave::runtime {

static std::string qualifiedName(const c10::FunctionSchema &schema) {
  return schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
}

static llvm::StringSet<> registeredNames() {
  llvm::StringSet<> names;
  for (const auto &op : torch::jit::getAllOperators())
    names.insert(qualifiedName(op->schema()));
  return names;
}

namespace {
/// Operators that libraries have registered, for the whole process.
struct LibraryOperators {
  std::mutex mutex;
  llvm::StringSet<> names;
};
} // namespace

static LibraryOperators &libraryOperators() {
  static LibraryOperators operators;
  return operators;
}

llvm::Error allowRegistered(llvm::function_ref<llvm::Error()> load) {
  std::lock_guard lock(libraryOperators().mutex);
  const llvm::StringSet<> before = registeredNames();
  if (llvm::Error error = load())
    return error;
  for (const auto &entry : registeredNames())
    if (!before.contains(entry.getKey()))
      libraryOperators().names.insert(entry.getKey());
  return llvm::Error::success();
}

llvm::Error loadLibrary(const std::string &path) {
  return allowRegistered([&]() -> llvm::Error {
    // Not RTLD_GLOBAL: its symbols must not override ours.
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return llvm::Error::success();
    return llvm::createStringError(llvm::Twine("cannot load library: ") + dlerror());
  });
}

llvm::Error checkOperators(const plan::Plan &plan, llvm::ArrayRef<std::string> allowed) {
  std::lock_guard lock(libraryOperators().mutex);
  std::vector<std::string> refused;
  // Unregistered operators are reported elsewhere, with a better message.
  const llvm::StringSet<> registered = registeredNames();
  for (const std::string &name : plan.operators)
    if (registered.contains(name) && !plan::isOperatorListed(name) &&
        !libraryOperators().names.contains(name) && !llvm::is_contained(allowed, name) &&
        !llvm::is_contained(allowed, llvm::StringRef(name).split('.').first))
      refused.push_back(name);
  if (refused.empty())
    return llvm::Error::success();
  return llvm::createStringError(
      "the plan calls " + llvm::join(refused, ", ") +
      ", which not every plan may; where you trust this one, pass --allow-operator " +
      llvm::join(refused, " --allow-operator "));
}

/// Includes lists and dicts, which ranks and requests share as they share tensors.
static bool writes(const c10::Argument &argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// `; did you mean aten::add?`, or nothing.
static std::string suggestion(const std::string &name) {
  std::vector<c10::Symbol> similar = torch::jit::findSimilarOperators(c10::Symbol::fromQualString(name));
  if (similar.empty())
    return "";
  return "; did you mean " + std::string(similar.front().toQualString()) + "?";
}

/// `prim::RaiseException(str msg, str? cls)`. libtorch's own leaves the message out.
static void raiseException(torch::jit::Stack &stack) {
  c10::IValue type = torch::jit::pop(stack), message = torch::jit::pop(stack);
  llvm::StringRef name = type.isString() ? llvm::StringRef(type.toStringRef()).rsplit('.').second : "";
  throw std::runtime_error((name.empty() ? "" : name.str() + ": ") + message.toStringRef());
}

static llvm::Expected<std::unique_ptr<ResolvedOperator>> find(const std::string &qualified) {
  auto [name, overload] = llvm::StringRef(qualified).split('.');
  auto found = torch::jit::findOperatorFor({name.str(), overload.str()});
  // Some operators have no operation of their own, and make one from a TorchScript node, which does not exist
  // here.
  if (!found || !found->hasOperation())
    return llvm::createStringError("this libtorch has no operator " + qualified + suggestion(name.str()) +
                                   "; an operator of another package needs its library (--library)");
  if (llvm::any_of(found->schema().arguments(), writes))
    return llvm::createStringError(
        "operator " + qualified +
        " writes to its operand, expected one that makes a new value; compile the model "
        "again");
  torch::jit::Operation plain =
      name == "prim::RaiseException" ? torch::jit::Operation(raiseException) : found->getOperation();
  torch::jit::Operation operation = guarded(found->schema(), gpuKernel(qualified, plain), /*onCpu=*/false);
  torch::jit::Operation onCpu = cpuKernel(qualified, guarded(found->schema(), plain, /*onCpu=*/true));
  return std::make_unique<ResolvedOperator>(
      ResolvedOperator{found->schema(), std::move(operation), std::move(onCpu)});
}

Operators::Operators(const plan::Plan &plan) : names(plan.operators), resolved(plan.operators.size()) {
  registerCollectives();
  registerRandomOperators();
}

llvm::Expected<ResolvedOperator *> Operators::resolve(uint32_t index) {
  if (!resolved[index]) {
    auto found = catching([&] { return find(names[index]); });
    if (!found)
      return found.takeError();
    resolved[index] = std::move(*found);
  }
  return resolved[index].get();
}

} // namespace cleave::runtime
