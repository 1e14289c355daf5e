//===- PermutationRole.h - Roles of operators in a token permutation -*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H
#define CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H

namespace cleave {

/// Role of an operator in the token permutation of a mixture of experts: rows are permuted into expert order,
/// computed per expert, and permuted back.
enum class PermutationRole {
  None,
  Sort,      ///< the last result holds the indices of a sort along `dim`, the result before it the elements
  Histogram, ///< number of elements equal to each integer (see integerBins)
  CumulativeSum, ///< cumulative sum along `dim`
  Group,       ///< grouped GEMM: operand 0 holds rows sorted by group, operand 2 the end offset of each group
  Scatter,     ///< writes elements of the third operand into the first, at the indices of the second
  FloorDivide, ///< the first operand divided by the second, rounded down
};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H
