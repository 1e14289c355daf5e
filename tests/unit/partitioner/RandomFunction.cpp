#include "RandomFunction.h"
#include <numeric>

namespace cleave {

static const std::string kInts = "!cleave.list<i64>";

std::string RandomFunction::type(const Shape &shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "i64>";
}

RandomFunction::RandomFunction(Dice &dice, uint32_t steps) : dice(dice) {
  values.push_back(weight({size(), size()}));
  values.push_back(weight({2, size(), size()}));
  for (uint32_t step = 0; step < steps; ++step)
    addStep(any(), dice.below(11));
}

std::string RandomFunction::text() const {
  std::string types, names;
  for (size_t i = values.size() - 2; i < values.size(); ++i) {
    types += (types.empty() ? "" : ", ") + type(values[i].shape);
    names += (names.empty() ? "" : ", ") + values[i].name;
  }
  return "func.func @f() -> (" + types + ") {\n" + head + body + "  return " + names + " : " + types +
         "\n}\n";
}

template <typename Predicate>
RandomFunction::Tensor RandomFunction::find(Predicate fits, const Shape &shape) {
  std::vector<Tensor> found;
  for (const Tensor &value : values)
    if (fits(value.shape))
      found.push_back(value);
  return found.empty() || dice.below(3) == 0 ? weight(shape) : found[dice.below(found.size())];
}

RandomFunction::Tensor RandomFunction::weight(const Shape &shape) {
  Tensor result{name(), shape};
  head += "  " + result.name + " = cleave.param \"" + result.name.substr(1) +
          "\" {role = \"parameter\"} : " + type(shape) + "\n";
  return result;
}

std::string RandomFunction::constant(const std::string &value, const std::string &type) {
  std::string result = name();
  head += "  " + result + " = cleave.constant(" + value + ") : " + type + "\n";
  return result;
}

std::string RandomFunction::integers(const Shape &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return constant("[" + text + "]", kInts);
}

void RandomFunction::call(const std::string &op, const std::vector<std::string> &operands,
                          const Shape &result) {
  std::string names, types;
  for (size_t i = 0; i < operands.size(); i += 2) {
    names += (i ? ", " : "") + operands[i];
    types += (i ? ", " : "") + operands[i + 1];
  }
  values.push_back({name(), result});
  body +=
      "  " + values.back().name + " = " + op + "(" + names + ") : (" + types + ") -> " + type(result) + "\n";
}

void RandomFunction::addStep(const Tensor &x, uint32_t kind) {
  const uint32_t dim = dice.below(x.shape.size());
  const std::string own = type(x.shape);
  if (kind < 3) {
    addProduct(x);
  } else if (kind < 5) {
    auto sameShape = [&](const Shape &shape) { return shape == x.shape; };
    Tensor other = find(sameShape, dice.below(2) ? x.shape : Shape{x.shape.back()});
    call("aten.add.Tensor", {x.name, own, other.name, type(other.shape), integer(1), "i64"}, x.shape);
  } else if (kind == 5) {
    call(dice.below(2) ? "aten.relu" : "aten.neg", {x.name, own}, x.shape);
  } else if (kind == 6) {
    addView(x);
  } else if (kind == 7) {
    addReorder(x, dice.below(3));
  } else if (kind == 8) {
    addSplit(x, dim);
  } else if (kind == 9) {
    addJoin(x, dim);
  } else if (x.shape.size() > 1) {
    Shape shape = x.shape;
    shape.erase(shape.begin() + dim);
    call("aten.sum.dim_IntList",
         {x.name, own, integers({dim}), kInts, constant("false", "i1"), "i1", constant("unit", "none"),
          "none"},
         shape);
  }
}

/// Of the last dimension: linear, with a bias or without, or matmul.
void RandomFunction::addProduct(const Tensor &x) {
  const int64_t in = x.shape.back(), out = size();
  if (x.shape.size() > 3)
    return;
  Shape shape = x.shape;
  if (dice.below(2) && x.shape.size() > 1) {
    Tensor w = find([&](const Shape &shape) { return shape.size() == 2 && shape[0] == in; }, {in, out});
    shape.back() = w.shape[1];
    return call("aten.matmul", {x.name, type(x.shape), w.name, type(w.shape)}, shape);
  }
  Tensor w = find([&](const Shape &shape) { return shape.size() == 2 && shape[1] == in; }, {out, in});
  shape.back() = w.shape[0];
  auto isBias = [&](const Shape &shape) { return shape == Shape{w.shape[0]}; };
  Tensor bias = dice.below(2) ? find(isBias, {w.shape[0]}) : Tensor{constant("unit", "none"), {}};
  call("aten.linear",
       {x.name, type(x.shape), w.name, type(w.shape), bias.name,
        bias.shape.empty() ? "none" : type(bias.shape)},
       shape);
}

/// Two dimensions become one, or one becomes two.
void RandomFunction::addView(const Tensor &x) {
  Shape shape = x.shape;
  const uint32_t dim = dice.below(shape.size());
  if (dim + 1 < shape.size() && dice.below(2)) {
    shape[dim] *= shape[dim + 1];
    shape.erase(shape.begin() + dim + 1);
  } else if (shape.size() < 4 && shape[dim] % 2 == 0) {
    const bool isOutside = dice.below(2);
    shape.insert(shape.begin() + dim + isOutside, 2);
    shape[dim + !isOutside] /= 2;
  }
  call("aten.reshape", {x.name, type(x.shape), integers(shape), kInts}, shape);
}

void RandomFunction::addReorder(const Tensor &x, uint32_t kind) {
  const uint32_t rank = x.shape.size(), dim = dice.below(rank), other = dice.below(rank);
  Shape shape = x.shape;
  if (kind == 0)
    return call("aten.flip", {x.name, type(x.shape), integers({dim}), kInts}, shape);
  if (kind == 1) {
    std::swap(shape[dim], shape[other]);
    return call("aten.transpose.int", {x.name, type(x.shape), integer(dim), "i64", integer(other), "i64"},
                shape);
  }
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + dim, order.end());
  for (uint32_t i = 0; i < rank; ++i)
    shape[i] = x.shape[order[i]];
  call("aten.permute", {x.name, type(x.shape), integers(order), kInts}, shape);
}

void RandomFunction::addSplit(const Tensor &x, uint32_t dim) {
  if (x.shape[dim] < 2)
    return;
  Shape sizes{1 + dice.below(x.shape[dim] - 1), 0};
  sizes[0] = dice.below(2) ? x.shape[dim] / 2 : sizes[0];
  sizes[1] = x.shape[dim] - sizes[0];
  const std::string list = name(), pieces = name();
  std::string types;
  for (uint32_t i = 0; i < 2; ++i) {
    Shape shape = x.shape;
    shape[dim] = sizes[i];
    values.push_back({pieces + "#" + std::to_string(i), shape});
    types += (i ? ", " : "") + type(shape);
  }
  body += "  " + list + " = aten.split_with_sizes(" + x.name + ", " + integers(sizes) + ", " + integer(dim) +
          ") : (" + type(x.shape) + ", " + kInts + ", i64) -> !cleave.list<!cleave.tensor>\n  " + pieces +
          ":2 = cleave.unpack " + list + " : (!cleave.list<!cleave.tensor>) -> (" + types + ")\n";
}

void RandomFunction::addJoin(const Tensor &x, uint32_t dim) {
  if (x.shape[dim] > 8)
    return;
  auto fits = [&](Shape shape) {
    if (shape.size() != x.shape.size() || shape[dim] > 8)
      return false;
    shape[dim] = x.shape[dim];
    return shape == x.shape;
  };
  Tensor other = find(fits, x.shape);
  Shape shape = x.shape;
  shape[dim] += other.shape[dim];
  const std::string list = name();
  body += "  " + list + " = cleave.list(" + x.name + ", " + other.name + ") : (" + type(x.shape) + ", " +
          type(other.shape) + ") -> !cleave.list<!cleave.tensor>\n";
  call("aten.cat", {list, "!cleave.list<!cleave.tensor>", integer(dim), "i64"}, shape);
}

} // namespace cleave
