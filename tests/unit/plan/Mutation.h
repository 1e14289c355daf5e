//===- Mutation.h - Changes of a valid plan ---------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PLAN_MUTATION_H
#define CLEAVE_TESTS_UNIT_PLAN_MUTATION_H

#include "codegen/plan/Plan.h"
#include <gtest/gtest.h>
#include <string>

namespace cleave::plan {

/// One change to the valid plan, and what the message about it holds.
struct Mutation {
  const char *name;
  void (*apply)(Plan &plan);
  const char *message;
};

#define MUTATION(name, message, ...)                                                                         \
  Mutation {                                                                                                 \
    name, [](Plan &plan) { __VA_ARGS__; }, message                                                           \
  }

/// Refuses each of them; instantiated with lists of them.
class Validate : public testing::TestWithParam<Mutation> {};

inline std::string nameOf(const testing::TestParamInfo<Mutation> &info) { return info.param.name; }

} // namespace cleave::plan

#endif // CLEAVE_TESTS_UNIT_PLAN_MUTATION_H
