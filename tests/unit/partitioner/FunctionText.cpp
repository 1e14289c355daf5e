#include "tests/unit/partitioner/FunctionText.h"
#include <algorithm>

namespace cleave {

std::string FunctionText::type(const Shape &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string FunctionText::text() const {
  std::string types, names;
  for (size_t i = values.size() - std::min(values.size(), results); i < values.size(); ++i) {
    types += (types.empty() ? "" : ", ") + type(values[i].shape);
    names += (names.empty() ? "" : ", ") + values[i].name;
  }
  return "func.func @f(" + arguments + ") -> (" + types + ") {\n" + head + body + tail + "  return " + names +
         " : " + types + "\n}\n";
}

FunctionText::Tensor FunctionText::weight(const Shape &shape) {
  Tensor result{name(), shape};
  head += "  " + result.name + " = cleave.param \"" + result.name.substr(1) +
          "\" {role = \"parameter\"} : " + type(shape) + "\n";
  return result;
}

FunctionText::Operand FunctionText::input(const Shape &shape, const std::string &element) {
  Operand result{name(), element == "i1" ? "i1" : type(shape, element)};
  arguments += (arguments.empty() ? "" : ", ") + result.name + ": " + result.type;
  return result;
}

FunctionText::Operand FunctionText::constant(const std::string &value, const std::string &type) {
  Operand result{name(), type};
  head += "  " + result.name + " = cleave.constant(" + value + ") : " + type + "\n";
  return result;
}

FunctionText::Operand FunctionText::integers(const Shape &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return constant("[" + text + "]", kInts);
}

/// `%r = op(%a, %b) : (type, type) -> result`.
static std::string line(const std::string &result, const std::string &op, const auto &operands,
                        const std::string &type) {
  std::string names, types;
  for (const auto &operand : operands) {
    names += (names.empty() ? "" : ", ") + operand.name;
    types += (types.empty() ? "" : ", ") + operand.type;
  }
  return "  " + result + " = " + op + "(" + names + ") : (" + types + ") -> " + type + "\n";
}

FunctionText::Operand FunctionText::list(const std::vector<Tensor> &items) {
  std::vector<Operand> operands;
  for (const Tensor &item : items)
    operands.push_back(operand(item));
  return callForList("cleave.list", operands);
}

FunctionText::Tensor FunctionText::call(const std::string &op, const std::vector<Operand> &operands,
                                        const Shape &result) {
  values.push_back({name(), result});
  body += line(values.back().name, op, operands, type(result));
  return values.back();
}

FunctionText::Operand FunctionText::callForList(const std::string &op, const std::vector<Operand> &operands,
                                                const std::string &type) {
  Operand result{name(), type};
  body += line(result.name, op, operands, type);
  return result;
}

void FunctionText::unpack(const Operand &list, Shape shape, uint32_t dim, const Shape &sizes) {
  const std::string pieces = name();
  std::string types;
  for (size_t i = 0; i < sizes.size(); ++i) {
    shape[dim] = sizes[i];
    values.push_back({pieces + "#" + std::to_string(i), shape});
    types += (i ? ", " : "") + type(shape);
  }
  body += "  " + pieces + ":" + std::to_string(sizes.size()) + " = cleave.unpack " + list.name + " : (" +
          kTensors + ") -> (" + types + ")\n";
}

} // namespace cleave
