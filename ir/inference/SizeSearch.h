//===- SizeSearch.h - Sizes at which a function runs ------------*- C++ -*-===//
//
// Private to ir/inference/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_SIZESEARCH_H
#define CLEAVE_IR_INFERENCE_SIZESEARCH_H

#include "ir/ExampleShapes.h"
#include "ir/inference/Sampler.h"

namespace cleave {

/// Names and their example sizes, in a fixed order.
using SizeTable = std::vector<std::pair<std::string, int64_t>>;

/// Finds sizes of one dynamic dimension at which a function runs as at the example sizes, with all other
/// dimensions at their example sizes.
class SizeSearch {
public:
  SizeSearch(mlir::func::FuncOp function, const SizeTable &sizes, const Sampler &traced)
      : function(function), sizes(sizes), traced(traced) {}

  /// True if a run failed only where the run at the example sizes did.
  bool runsAsTraced(const Sampler &run) const;

  /// Sets `min` of each dimension.
  void findMin(llvm::StringMap<SizeLimits> &limits) const;
  /// Sets `min` and `max` of each dimension, the latter as far as a DimFitter tries. False if a dimension
  /// runs only at its example size; `fixed` is its name.
  bool findRanges(llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;
  /// Sets `divisibleBy`: the smallest number, at most `most` and half of the example size, of which another
  /// multiple runs, too. False if a dimension has no such number (`fixed` is its name), or if none has one
  /// above 1.
  bool findDivisibleBy(int64_t most, llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;

private:
  bool runsAt(llvm::StringRef name, int64_t size) const;
  int64_t leastOf(llvm::StringRef name, int64_t size, int64_t multiple) const;

  mlir::func::FuncOp function;
  const SizeTable &sizes;
  const Sampler &traced;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SIZESEARCH_H
