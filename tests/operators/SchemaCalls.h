//===- SchemaCalls.h - Calls by what a schema says --------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_SCHEMACALLS_H
#define CLEAVE_TESTS_OPERATORS_SCHEMACALLS_H

#include "tests/operators/CallText.h"
#include <ATen/core/function_schema.h>
#include <optional>
#include <random>

namespace cleave::operators {

using Random = std::mt19937_64;

/// A number below `bound`.
inline uint64_t below(Random &random, uint64_t bound) { return random() % bound; }
/// True once in `times`.
inline bool once(Random &random, uint64_t times) { return random() % times == 0; }

/// Whether a plan can have values for all arguments, and the operator writes to none of its tensors.
bool isCallable(const c10::FunctionSchema &schema);

/// A call that fits the schema's types and what names of arguments usually mean, without any knowledge of the
/// operator: most such calls fail, and some in a thousand give a result. Nothing where a type has no values.
std::optional<Call> randomCall(const std::string &op, const c10::FunctionSchema &schema, Random &random);

/// A small tensor of any type and shape.
CallValue randomTensor(Random &random);
/// A value of any kind that plans have.
CallValue randomValue(Random &random);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_SCHEMACALLS_H
