//===- Mutation.h - Changes of a valid plan ---------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PLAN_MUTATION_H
#define CLEAVE_TESTS_UNIT_PLAN_MUTATION_H

#include "codegen/plan/Plan.h"
#include <gtest/gtest.h>
#include <memory>
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

inline Signature &signature(Plan &plan) { return *plan.signatures[0]; }
inline Program &first(Plan &plan) { return *plan.programs[0]; }
inline Program &second(Plan &plan) { return *plan.programs[1]; }
inline Instruction &instruction(Program &program, size_t block, size_t index) {
  return *program.blocks[block]->instructions[index];
}

template <typename T> std::unique_ptr<T> copyOf(const std::unique_ptr<T> &value) {
  return std::make_unique<T>(*value);
}

/// A state `s` of which no more is known.
inline void addState(Plan &plan, uint32_t stage) {
  auto state = std::make_unique<State>();
  state->name = "s";
  state->type = std::make_unique<TensorType>();
  state->stage = stage;
  plan.states.push_back(std::move(state));
}

/// The first instruction of the first program takes weights alone and runs once.
inline void setUp(Plan &plan) {
  first(plan).setup = 1;
  instruction(first(plan), 0, 0).operands = {1, 2};
  instruction(first(plan), 0, 0).releases = {};
  instruction(first(plan), 0, 1).releases = {0};
}

inline std::string nameOf(const testing::TestParamInfo<Mutation> &info) { return info.param.name; }

} // namespace cleave::plan

#endif // CLEAVE_TESTS_UNIT_PLAN_MUTATION_H
