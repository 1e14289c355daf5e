//===- CutCache.cpp - Cached cuts of one graph ----------------------------===//
#include "partitioner/cutting/CutCache.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

static bool haveOneLimit(const CutRequest &request) {
  return llvm::all_of(request.stages, [&](const StageDevice &stage) {
    return stage.weightLimit == request.stages.front().weightLimit;
  });
}

bool CutCache::Found::answers(const CutRequest &other) const {
  if (wasInterrupted || request.stages.size() != other.stages.size())
    return false;
  if (request == other)
    return true;
  if (!failure.empty() || !haveOneLimit(other) ||
      !cut.weightLimitRange.contains(other.stages.front().weightLimit))
    return false;
  CutRequest same = other;
  for (StageDevice &stage : same.stages)
    stage.weightLimit = request.stages.front().weightLimit;
  return request == same;
}

llvm::Expected<const StageCut *> CutCache::cut(llvm::function_ref<const StageGraph &()> graph,
                                               const CutRequest &request) {
  auto known = llvm::find_if(all, [&](const Found &one) { return one.answers(request); });
  if (known == all.end()) {
    known = all.insert(all.end(), {request, {}, ""});
    if (auto error = cutStages(graph(), request).moveInto(known->cut))
      known->failure = toString(std::move(error));
    // A search along program order cannot be interrupted.
    known->wasInterrupted = known->failure.empty()
                                ? known->cut.end == SearchEnd::Interrupted
                                : request.limits.downsets > 0 && CancellationScope::isRequested();
  }
  if (!known->failure.empty())
    return makeError("{0}", known->failure);
  return &known->cut;
}

} // namespace cleave
