//===- PlanMutator.h - Plans that are changed as tables ---------*- C++ -*-===//
#ifndef CLEAVE_TESTS_FUZZ_PLANMUTATOR_H
#define CLEAVE_TESTS_FUZZ_PLANMUTATOR_H

#include "tests/fuzz/Fuzz.h"

namespace cleave::fuzz {

/// Changes a few numbers of a plan's FlatBuffer, or the order or length of its lists, in place. False if the
/// payload is malformed.
bool mutateTables(llvm::MutableArrayRef<uint8_t> payload, Dice &dice);

} // namespace cleave::fuzz

#endif // CLEAVE_TESTS_FUZZ_PLANMUTATOR_H
