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

/// Names and their sizes in the examples, in a fixed order.
using SizeTable = std::vector<std::pair<std::string, int64_t>>;

/// Tries a function at other sizes of one named dimension, the others as traced, to find those at which it
/// runs as it does at the traced ones.
class SizeSearch {
public:
  SizeSearch(mlir::func::FuncOp function, const SizeTable &sizes, const Sampler &traced)
      : function(function), sizes(sizes), traced(traced) {}

  /// Whether a run failed nowhere but where the one at the traced sizes did.
  bool runsAsTraced(const Sampler &run) const;

  /// For each dimension the least size at which the function runs.
  void findLeast(llvm::StringMap<SizeLimits> &limits) const;
  /// The least, and the greatest of those that a fitter tries. False where a dimension has the traced size
  /// alone: it is `fixed`.
  bool findRanges(llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;
  /// The least number, at most `most` and half of the traced size, of whose multiples the function runs at
  /// another one. False where there is none for one dimension, which is `fixed`, or none above 1 for all.
  bool findMultiples(int64_t most, llvm::StringMap<SizeLimits> &limits, std::string &fixed) const;

private:
  bool runsAt(llvm::StringRef name, int64_t size) const;
  int64_t leastOf(llvm::StringRef name, int64_t size, int64_t multiple) const;

  mlir::func::FuncOp function;
  const SizeTable &sizes;
  const Sampler &traced;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SIZESEARCH_H
