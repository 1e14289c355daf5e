//===- Trial.h - Hostile calls of one operator, in a process of their own -*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_TRIAL_H
#define CLEAVE_TESTS_OPERATORS_TRIAL_H

#include "tests/operators/CallText.h"
#include <ATen/core/function_schema.h>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::operators {

/// Outcome of a call. Crash to Write keep an operator off the list; Result, Error and Slow do not.
enum class Outcome : uint8_t {
  /// It gave a result, or threw.
  Result,
  Error,
  /// A signal.
  Crash,
  /// It touched memory beside a tensor's.
  Guard,
  /// It gave a tensor that reaches beyond its storage, or is none that plans compute with.
  Outside,
  /// Its result depends on what memory held before.
  Uninitialized,
  /// It made a system call that opens files, starts processes, or reaches others.
  Effect,
  /// It changed an argument, which its schema does not say.
  Write,
  /// It exceeded the time limit. Not harmful: `cleave run` ends at its deadline.
  Slow,
  Count,
};

/// What came of all calls of an operator.
struct Tally {
  uint64_t counts[size_t(Outcome::Count)] = {};
  /// The first calls that came to something else than a result or an error, each with its outcome in front.
  std::vector<std::string> examples;
  /// What the last call that failed threw.
  std::string message;

  uint64_t &operator[](Outcome outcome) { return counts[size_t(outcome)]; }
  uint64_t calls() const;
  bool isHarmless() const;
};

llvm::StringRef nameOf(Outcome outcome);

/// Makes calls of one operator in a child process. A call that ends the child is counted, and a new child
/// goes on with the next call.
class Trial {
public:
  /// `op` is resolved as the runtime does, guards included. Fails where there is none that a plan could call.
  static llvm::Expected<Trial> of(const std::string &op);

  const c10::FunctionSchema &schema() const { return *found; }
  /// Up to `wanted` calls that give a result, among `tries` that fit the schema.
  std::vector<Call> find(size_t wanted, uint64_t tries) const;
  /// Runs the mutated calls number `first` to `last` - 1; call n is a call of `good`, mutated with a seed
  /// that depends on n and the operator alone. Stops after five harmful ones. Every call is made at both ends
  /// of its pages.
  Tally run(const std::vector<Call> &good, uint64_t first, uint64_t last) const;
  /// What comes of one call.
  Tally run(const Call &call) const;

private:
  explicit Trial(std::string op) : op(std::move(op)) {}
  std::string op;
  const c10::FunctionSchema *found = nullptr;
};

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_TRIAL_H
