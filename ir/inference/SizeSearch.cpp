//===- SizeSearch.cpp - Sizes at which a function runs --------------------===//
#include "ir/inference/SizeSearch.h"
#include "ir/inference/DimFitter.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace cleave {

bool SizeSearch::runsAt(StringRef name, int64_t size) const {
  llvm::StringMap<int64_t> point;
  for (auto &[other, example] : sizes)
    point[other] = example;
  point[name] = size;
  MetaInterpreter run(point);
  run.run(function);
  return !run.failsWhereRuns(atExampleSizes);
}

/// Bisects between `fails` and `runs`, which are a multiple of `step` apart; the size nearest to `fails` at
/// which the function runs.
static int64_t bisect(int64_t fails, int64_t runs, int64_t step, llvm::function_ref<bool(int64_t)> runsAt) {
  while (std::abs(runs - fails) > step) {
    int64_t middle = fails + (runs - fails) / step / 2 * step;
    (runsAt(middle) ? runs : fails) = middle;
  }
  return runs;
}

int64_t SizeSearch::lastThatRuns(StringRef name, int64_t fails, int64_t multiple) const {
  const auto example = llvm::find_if(sizes, [&](auto &entry) { return entry.first == name; });
  return bisect(fails, example->second, multiple, [&](int64_t at) { return runsAt(name, at); });
}

int64_t SizeSearch::leastOf(StringRef name, int64_t size, int64_t multiple) const {
  auto runs = [&](int64_t at) { return runsAt(name, at); };
  if (size <= multiple || runs(multiple))
    return 1;
  return bisect(multiple, size, multiple, runs);
}

void SizeSearch::findMin(llvm::StringMap<SizeLimits> &limits) const {
  for (auto &[name, size] : sizes) {
    SizeLimits &limit = limits[name];
    limit.min = leastOf(name, size, limit.divisibleBy);
  }
}

bool SizeSearch::findRanges(llvm::StringMap<SizeLimits> &limits, std::string &fixed) const {
  findMin(limits);
  for (auto &[name, size] : sizes) {
    SizeLimits &limit = limits[name];
    int64_t high = DimFitter::triedRange(size, limit).second;
    auto runs = [&, &name = name](int64_t at) { return runsAt(name, at); };
    if (high > size && !runs(high))
      limit.max = bisect(high, size, limit.divisibleBy, runs);
    if (auto [low, most] = DimFitter::triedRange(size, limit); low == most) {
      fixed = name;
      return false;
    }
  }
  return true;
}

bool SizeSearch::findDivisibleBy(int64_t most, llvm::StringMap<SizeLimits> &limits,
                                 std::string &fixed) const {
  bool isAny = false;
  for (auto &[name, size] : sizes) {
    int64_t multiple = 1, largest = std::clamp<int64_t>(size / 2, 1, most);
    // Not size 1, which broadcasts, and rather below the example size, since tables of positions end
    // somewhere.
    auto runs = [&, &name = name, &size = size](int64_t step) {
      return runsAt(name, size - step > 1 ? size - step : size + step);
    };
    while (multiple <= largest && (size % multiple != 0 || !runs(multiple)))
      ++multiple;
    if (multiple > largest) {
      fixed = name;
      return false;
    }
    limits[name].divisibleBy = multiple;
    isAny |= multiple > 1;
  }
  return isAny;
}

} // namespace cleave
