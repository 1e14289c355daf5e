#include "tests/unit/partitioner/RandomFunction.h"
#include <numeric>

namespace cleave {

RandomFunction::RandomFunction(Dice &dice, uint32_t steps) : FunctionText(dice, "i64", 2) {
  values.push_back(weight({size(), size()}));
  values.push_back(weight({2, size(), size()}));
  for (uint32_t step = 0; step < steps; ++step)
    addStep(any(), dice.below(11));
}

void RandomFunction::addStep(const Tensor &x, uint32_t kind) {
  const uint32_t dim = dice.below(x.shape.size());
  if (kind < 3) {
    addProduct(x);
  } else if (kind < 5) {
    auto sameShape = [&](const Shape &shape) { return shape == x.shape; };
    Tensor other = find(sameShape, dice.below(2) ? x.shape : Shape{x.shape.back()});
    call("aten.add.Tensor", {operand(x), operand(other), integer(1)}, x.shape);
  } else if (kind == 5) {
    call(dice.below(2) ? "aten.relu" : "aten.neg", {operand(x)}, x.shape);
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
    call("aten.sum.dim_IntList", {operand(x), integers({dim}), flag(false), none()}, shape);
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
    call("aten.matmul", {operand(x), operand(w)}, shape);
    return;
  }
  Tensor w = find([&](const Shape &shape) { return shape.size() == 2 && shape[1] == in; }, {out, in});
  shape.back() = w.shape[0];
  const Operand bias = dice.below(2) ? operand(like({w.shape[0]})) : none();
  call("aten.linear", {operand(x), operand(w), bias}, shape);
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
  call("aten.reshape", {operand(x), integers(shape)}, shape);
}

void RandomFunction::addReorder(const Tensor &x, uint32_t kind) {
  const uint32_t rank = x.shape.size(), dim = dice.below(rank), other = dice.below(rank);
  Shape shape = x.shape;
  if (kind == 0) {
    call("aten.flip", {operand(x), integers({dim})}, shape);
    return;
  }
  if (kind == 1) {
    std::swap(shape[dim], shape[other]);
    call("aten.transpose.int", {operand(x), integer(dim), integer(other)}, shape);
    return;
  }
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + dim, order.end());
  for (uint32_t i = 0; i < rank; ++i)
    shape[i] = x.shape[order[i]];
  call("aten.permute", {operand(x), integers(order)}, shape);
}

void RandomFunction::addSplit(const Tensor &x, uint32_t dim) {
  if (x.shape[dim] < 2)
    return;
  Shape sizes{1 + dice.below(x.shape[dim] - 1), 0};
  sizes[0] = dice.below(2) ? x.shape[dim] / 2 : sizes[0];
  sizes[1] = x.shape[dim] - sizes[0];
  unpack(callForList("aten.split_with_sizes", {operand(x), integers(sizes), integer(dim)}), x.shape, dim,
         sizes);
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
  call("aten.cat", {list({x, other}), integer(dim)}, shape);
}

} // namespace cleave
