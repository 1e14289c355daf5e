//===- SearchLimits.cpp - Limits of a search over downsets ----------------===//
#include "partitioner/graph/SearchLimits.h"

#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace cleave {

/// The thread's innermost scope.
static thread_local const CancellationScope *current = nullptr;

CancellationScope::CancellationScope(std::function<bool()> isCancelled)
    : isCancelled(std::move(isCancelled)), outer(current) {
  current = this;
}

CancellationScope::~CancellationScope() { current = outer; }

bool CancellationScope::isRequested() { return current && current->isCancelled && current->isCancelled(); }

std::string SearchProof::describe(const SearchLimits &limits) const {
  if (isExact && downsets > 0)
    return formatv("exact: {0:N} downset{1}", downsets, downsets == 1 ? "" : "s");
  if (isExact)
    return "exact: meets the lower bound";
  if (limits.downsets == 0)
    return "linearised: program order alone";
  const char *what = downsets > 0 ? "not proven" : "linearised";
  switch (end) {
  case SearchEnd::OutOfWork:
    return formatv("{0}: more than {1:N} steps", what, limits.work);
  case SearchEnd::Interrupted:
    return formatv("{0}: interrupted", what);
  case SearchEnd::TooManyStates:
    return formatv("{0}: downsets times devices are more than {1:N}", what, kMaxSearchStates);
  default:
    return formatv("{0}: more than {1:N} downsets", what, limits.downsets);
  }
}

} // namespace cleave
