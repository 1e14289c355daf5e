//===- Schemas.cpp - PyTorch's operator registry, as the IR names it ------===//
#include "ir/Schemas.h"
#include "collectives/Collectives.h"
#include "random/RandomOperators.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DynamicLibrary.h"
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace cleave {

bool OperatorSchema::writesAnyArgument() const {
  return llvm::any_of(arguments, [](const Argument &argument) { return argument.isWritten; });
}

std::string irNameOf(llvm::StringRef torchName) {
  auto [ns, name] = torchName.split("::");
  return (ns + "." + name).str();
}

static bool hasTag(const torch::jit::Operator &op, std::initializer_list<at::Tag> tags) {
  auto handle = c10::Dispatcher::singleton().findSchema(op.schema().operator_name());
  return handle && llvm::any_of(tags, [&](at::Tag tag) { return handle->hasTag(tag); });
}

static OperatorSchema describe(const torch::jit::Operator &op) {
  const c10::FunctionSchema &schema = op.schema();
  OperatorSchema result;
  result.torchName = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  result.irName = irNameOf(result.torchName);
  for (const c10::Argument &argument : schema.arguments()) {
    const c10::AliasInfo *alias = argument.alias_info();
    result.arguments.push_back({argument.name(), argument.type()->annotation_str(), alias && alias->isWrite(),
                                alias && !alias->isWrite()});
  }
  for (const c10::Argument &argument : schema.returns())
    result.results.push_back(argument.type()->annotation_str());
  result.isVariadic = schema.is_vararg() || schema.is_varret();
  result.isRandom = hasTag(op, {at::Tag::nondeterministic_seeded});
  result.isDataDependent = hasTag(op, {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output});
  return result;
}

static void registerOwnOperators() {
  registerCollectives();
  registerRandomOperators();
}

namespace {
struct Registry {
  llvm::StringMap<OperatorSchema> byName;
  std::vector<const OperatorSchema *> ordered;

  Registry() {
    registerOwnOperators();
    for (auto &op : torch::jit::getAllOperators()) {
      OperatorSchema schema = describe(*op);
      byName.try_emplace(schema.irName, std::move(schema));
    }
    for (auto &entry : byName)
      ordered.push_back(&entry.second);
    llvm::sort(ordered, [](auto *a, auto *b) { return a->irName < b->irName; });
  }
};
} // namespace

static const Registry &registry() {
  static const Registry instance;
  return instance;
}

const OperatorSchema *findSchema(llvm::StringRef irName) {
  auto found = registry().byName.find(irName);
  return found == registry().byName.end() ? nullptr : &found->second;
}

llvm::ArrayRef<const OperatorSchema *> allSchemas() { return registry().ordered; }

bool hasOperator(llvm::StringRef nameSpace, llvm::StringRef name) {
  registerOwnOperators();
  const auto symbol = c10::Symbol::fromQualString((nameSpace + "::" + name).str());
  return !torch::jit::getAllOperatorsFor(symbol).empty();
}

std::vector<std::string> operatorNames() {
  registerOwnOperators();
  std::vector<std::string> names;
  for (auto &op : torch::jit::getAllOperators())
    names.push_back(irNameOf(op->schema().name()));
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<std::string> loadOperatorLibrary(const std::string &path) {
  std::string message;
  if (llvm::sys::DynamicLibrary::LoadLibraryPermanently(path.c_str(), &message))
    return message;
  return std::nullopt;
}

} // namespace cleave
