//===- PermutationRole.h - What operators do to sorted rows -------------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H
#define CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H

namespace cleave {

/// What an operator does where rows are sorted by what computes them and brought back, as a mixture of
/// experts' are.
enum class PermutationRole {
  None,
  Sort,       ///< the last result says where its elements were, along `dim`; one before it is the elements
              ///< themselves
  Count,      ///< how many elements there are of each whole number (see countedNumbers)
  RunningSum, ///< sums of the elements so far, along `dim`
  Group,      ///< the rows of its first operand by groups, each up to where the operand after the second says
  Place,      ///< writes its third operand's elements into the first, at the positions of the second
  Quotient,   ///< its first operand divided by the second, rounded down
};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_PERMUTATIONROLE_H
