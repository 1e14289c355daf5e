//===- SizeSearch.h - Sizes at which a function runs ------------*- C++ -*-===//
//
// Private to ir/inference/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_SIZESEARCH_H
#define CLEAVE_IR_INFERENCE_SIZESEARCH_H

#include "ir/ExampleShapes.h"
#include "ir/inference/MetaInterpreter.h"

namespace cleave {

/// Names and their example sizes, in a fixed order.
using SizeTable = std::vector<std::pair<std::string, int64_t>>;

/// Finds sizes of one dynamic dimension at which a function runs as at the example sizes, with all other
/// dimensions at their example sizes.
class SizeSearch {
public:
  /// \param atExampleSizes  the run at the example sizes.
  SizeSearch(mlir::func::FuncOp function, const SizeTable &sizes, const MetaInterpreter &atExampleSizes)
      : function(function), sizes(sizes), atExampleSizes(atExampleSizes) {}

  /// The last size at which the function runs, going from the example size to `fails`, at which it does not,
  /// in steps of `multiple`.
  int64_t lastThatRuns(llvm::StringRef name, int64_t fails, int64_t multiple) const;

  /// True if the function runs at this size of the dimension, as at the example sizes.
  bool runsAt(llvm::StringRef name, int64_t size) const;

  /// Sets `min` of each dimension.
  void findMin(llvm::StringMap<SizeLimits> &limits) const;
  /// Sets `min` and `max` of each dimension, the latter as far as a DimFitter tries. False if a dimension
  /// runs only at its example size; `fixed` is its name.
  bool findRanges(llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;
  /// Sets `divisibleBy` of each dimension: the smallest divisor d of its example size, at most `most` and at
  /// most half of that size, such that the function also runs at a neighbouring multiple of d. False if a
  /// dimension has no such d (`fixed` is its name), or if d is 1 for every dimension.
  bool findDivisibleBy(int64_t most, llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;

private:
  int64_t leastOf(llvm::StringRef name, int64_t size, int64_t multiple) const;

  mlir::func::FuncOp function;
  const SizeTable &sizes;
  const MetaInterpreter &atExampleSizes;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SIZESEARCH_H
