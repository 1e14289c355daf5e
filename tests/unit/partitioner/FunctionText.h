//===- FunctionText.h - Writing a function of the IR ------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_FUNCTIONTEXT_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_FUNCTIONTEXT_H

#include "tests/unit/partitioner/RandomGraph.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// The text of a function `f`, written operation by operation. Its tensors are of one type of elements.
class FunctionText {
public:
  /// Arguments, weights and constants first; it returns the last values.
  std::string text() const;

protected:
  using Shape = std::vector<int64_t>;
  struct Tensor {
    std::string name;
    Shape shape;
  };
  struct Operand {
    std::string name, type;
  };
  static constexpr const char *kInts = "!cleave.list<i64>";
  static constexpr const char *kTensors = "!cleave.list<!cleave.tensor>";

  /// \param results  how many values it returns at most.
  FunctionText(Dice &dice, std::string element, size_t results)
      : dice(dice), element(std::move(element)), results(results) {}

  std::string type(const Shape &shape) const { return type(shape, element); }
  static std::string type(const Shape &shape, const std::string &element);
  std::string name() { return "%v" + std::to_string(count++); }
  /// A late one more often than an early one.
  Tensor any() { return values[values.size() - 1 - dice.below(1 + dice.below(values.size()))]; }
  /// One whose shape `fits`, or a new weight of `shape`.
  template <typename Predicate> Tensor find(Predicate fits, const Shape &shape) {
    std::vector<Tensor> found;
    for (const Tensor &value : values)
      if (fits(value.shape))
        found.push_back(value);
    return found.empty() || dice.below(3) == 0 ? weight(shape) : found[dice.below(found.size())];
  }
  Tensor like(const Shape &shape) {
    return find([&](const Shape &other) { return other == shape; }, shape);
  }
  Tensor weight(const Shape &shape);
  Operand input(const Shape &shape, const std::string &element);

  Operand operand(const Tensor &tensor) const { return {tensor.name, type(tensor.shape)}; }
  Operand constant(const std::string &value, const std::string &type);
  Operand integer(int64_t value) { return constant(std::to_string(value) + " : i64", "i64"); }
  Operand real(const std::string &value) { return constant(value + " : f64", "f64"); }
  Operand flag(bool value) { return constant(value ? "true" : "false", "i1"); }
  Operand none() { return constant("unit", "none"); }
  Operand integers(const Shape &values);
  Operand list(const std::vector<Tensor> &items);
  /// Its result is a value from then on.
  Tensor call(const std::string &op, const std::vector<Operand> &operands, const Shape &result);
  /// A call that returns a list, which is not added to `values`.
  Operand callForList(const std::string &op, const std::vector<Operand> &operands,
                      const std::string &type = kTensors);
  /// The items of a list that are pieces of `shape` along `dim`; they are values from then on.
  void unpack(const Operand &list, Shape shape, uint32_t dim, const Shape &sizes);

  Dice &dice;
  const std::string element;
  std::string arguments, head, body, tail;
  std::vector<Tensor> values;

private:
  const size_t results;
  uint32_t count = 0;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_FUNCTIONTEXT_H
