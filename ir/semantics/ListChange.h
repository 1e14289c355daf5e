//===- ListChange.h - Operators that change a list --------------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_LISTCHANGE_H
#define CLEAVE_IR_SEMANTICS_LISTCHANGE_H

namespace cleave {

/// How an operator changes its first operand, a list or dict, in place.
enum class ListChange {
  None,
  Append,  ///< operand 1 becomes the last item
  Extend,  ///< the items of operand 1 become the last items
  Clear,   ///< no item is left
  Reverse, ///< the last item becomes the first
  SetItem, ///< operand 2 takes the place of the item at index, or key, operand 1
  Insert,  ///< operand 2 goes in front of the item at index operand 1
  Remove,  ///< the item at index operand 1 goes; a result is that item
};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_LISTCHANGE_H
