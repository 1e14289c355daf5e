//===- RandomFunction.h - Seeded functions for the property tests -*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H

#include "RandomGraph.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// The text of a function of weights alone: products, views and joins of integers, so that results are exact.
/// Sizes are few, so that dimensions meet which have nothing to do with each other.
class RandomFunction {
public:
  RandomFunction(Dice &dice, uint32_t steps);
  std::string text() const;

private:
  using Shape = std::vector<int64_t>;
  struct Tensor {
    std::string name;
    Shape shape;
  };

  static std::string type(const Shape &shape);
  std::string name() { return "%v" + std::to_string(count++); }
  int64_t size() { return std::vector<int64_t>{2, 4, 6, 6, 4}[dice.below(5)]; }
  /// A late one more often than an early one.
  Tensor any() { return values[values.size() - 1 - dice.below(1 + dice.below(values.size()))]; }
  /// One that `fits`, or a new weight of `shape`.
  template <typename Predicate> Tensor find(Predicate fits, const Shape &shape);
  Tensor weight(const Shape &shape);
  std::string constant(const std::string &value, const std::string &type);
  std::string integer(int64_t value) { return constant(std::to_string(value) + " : i64", "i64"); }
  std::string integers(const Shape &values);
  /// Operands are names and types by turns.
  void call(const std::string &op, const std::vector<std::string> &operands, const Shape &result);

  void addStep(const Tensor &x, uint32_t kind);
  void addProduct(const Tensor &x);
  void addView(const Tensor &x);
  void addReorder(const Tensor &x, uint32_t kind);
  void addSplit(const Tensor &x, uint32_t dim);
  void addJoin(const Tensor &x, uint32_t dim);

  Dice &dice;
  std::string head, body;
  std::vector<Tensor> values;
  uint32_t count = 0;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H
