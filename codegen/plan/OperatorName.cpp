//===- OperatorName.cpp - Operators that a plan may call ------------------===//
#include "codegen/plan/OperatorName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace cleave::plan {

using llvm::StringRef;

/// Written by `make operators` from the results of hostile calls of each operator: full names, sorted.
static constexpr StringRef kListed[] = {
#include "codegen/plan/AllowedOperators.inc"
};

static bool isWord(StringRef text) {
  return !text.empty() && llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

bool isOperatorName(StringRef name) {
  auto [space, rest] = name.split("::");
  auto [base, overload] = rest.split('.');
  bool hasOverload = rest.contains('.');
  return isWord(space) && isWord(base) && (!hasOverload || isWord(overload));
}

/// Cleave's own operators check their arguments themselves.
static bool isOwnOperator(StringRef name) {
  return name.starts_with("spmd::") ||
         llvm::is_contained({"random::uniform", "random::normal", "random::bernoulli"}, name);
}

bool isOperatorListed(StringRef name) {
  return isOwnOperator(name) || std::binary_search(std::begin(kListed), std::end(kListed), name);
}

bool isAnyOverloadListed(StringRef name) {
  // A name sorts directly before its overloads.
  const auto *found = std::lower_bound(std::begin(kListed), std::end(kListed), name);
  return isOwnOperator(name) || (found != std::end(kListed) && found->split('.').first == name);
}

bool isOfListedNamespace(StringRef name) {
  // The first name that does not sort before `namespace::`.
  const StringRef prefix = name.take_front(name.find("::") + 2);
  const auto *found = std::lower_bound(std::begin(kListed), std::end(kListed), prefix);
  return found != std::end(kListed) && found->starts_with(prefix);
}

bool isCollective(StringRef name) { return name.starts_with("spmd::") && name != "spmd::shard"; }

} // namespace cleave::plan
