//===- Mutator.h - Hostile calls from good ones -----------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_MUTATOR_H
#define CLEAVE_TESTS_OPERATORS_MUTATOR_H

#include "tests/operators/SchemaCalls.h"

namespace cleave::operators {

struct MutationOptions {
  /// Contents and strides alone, after which many calls still give a result.
  bool gently = false;
  /// Tensors may have up to 2^62 elements, which share memory, and numbers may be as large.
  bool mayBeLarge = true;
};

/// Changes one to three of the values of `call`, at any depth: sizes, strides, dtypes and contents of
/// tensors; numbers to limits of types; lengths of lists; words; other kinds of values. Or gives all of its
/// numbers, and those in its tensors, values at the limits of one type.
void mutate(Call &call, MutationOptions options, Random &random);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_MUTATOR_H
