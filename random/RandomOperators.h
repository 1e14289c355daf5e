//===- RandomOperators.h - Random numbers by key and index ------*- C++ -*-===//
//
// Operators of the namespace `random` compute each element from a key, a stream and the element's index alone
// (random/Philox.h). So they are pure: parts of a value have the numbers of the whole, a second call gives
// the numbers of the first, and all devices give the same, `normal` up to rounding.
//
//   uniform(Tensor key, int stream, Tensor[] indices, ScalarType dtype) -> Tensor
//     From [0, 1): multiples of 2^-24, of 2^-11 for float16, of 2^-8 for bfloat16.
//   normal(Tensor key, int stream, Tensor[] indices, ScalarType dtype) -> Tensor
//     Mean 0 and variance 1 (Box and Muller 1958).
//   bernoulli(Tensor key, int stream, Tensor[] indices, float p, ScalarType dtype) -> Tensor
//     1 with probability p, else 0; uniform < p, with 24 bits for every dtype.
//
// `key` is an int64 tensor of one element. `indices` are int64 tensors, at least one, that broadcast to the
// shape of the result; an element's index is their sum modulo 2^64 (for `normal`, which takes numbers 2·index
// and 2·index + 1, modulo 2^63). A vector for each dimension suffices, so that the caller makes no index
// tensor of the value's size. Kernels for devices other than CPUs make several int64 temporaries of that
// size.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RANDOM_RANDOMOPERATORS_H
#define CLEAVE_RANDOM_RANDOMOPERATORS_H

namespace cleave {

/// Registers the operators and their kernels; may be called again. They check their arguments, and throw
/// c10::Error.
void registerRandomOperators();

} // namespace cleave

#endif // CLEAVE_RANDOM_RANDOMOPERATORS_H
