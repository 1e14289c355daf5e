#include "RandomProgram.h"
#include <numeric>

namespace cleave {

RandomProgram::RandomProgram(Dice &dice, uint32_t steps, bool isExact)
    : FunctionText(dice, isExact ? "i64" : "f64", 5), isExact(isExact) {
  const Shape shape{size(), size()};
  values.push_back({input(shape, element).name, shape});
  values.push_back(weight({size(), size()}));
  values.push_back(weight({2, size(), size()}));
  for (uint32_t step = 0; step < steps; ++step)
    addStep(any());
}

RandomProgram::Operand RandomProgram::sizes(const Shape &values) {
  if (dice.below(2))
    return integers(values);
  std::vector<Operand> items;
  for (int64_t value : values)
    items.push_back(integer(value));
  return callForList("cleave.list", items, kInts);
}

void RandomProgram::pieces(const std::string &op, const std::vector<Operand> &operands, const Shape &shape,
                           uint32_t dim, const Shape &sizes) {
  const Operand list = callForList(op, operands);
  Shape piece = shape;
  switch (dice.below(6)) {
  case 0: // By number, from the end: nothing is known of it before it runs.
    piece[dim] = sizes.back();
    call("aten.__getitem__.t", {list, integer(-1)}, piece);
    return;
  case 1: // The list as it is.
    call("aten.cat", {list, integer(dim)}, shape);
    return;
  case 2: // Not all of it.
    piece[dim] = sizes[0];
    call("aten.__getitem__.t", {list, integer(0)}, piece);
    return;
  default:
    unpack(list, shape, dim, sizes);
  }
}

//===- Operators ----------------------------------------------------------===//

void RandomProgram::addStep(const Tensor &x) {
  switch (dice.below(isExact ? 18 : 24)) {
  case 0:
  case 1:
  case 2:
    return addProduct(x);
  case 3:
  case 4:
    return addElementwise(x);
  case 5:
  case 6:
    return addView(x);
  case 7:
  case 8:
    return addReorder(x);
  case 9:
    return addSplit(x);
  case 10:
    return addJoin(x);
  case 11:
    return addCut(x);
  case 12:
    return addRepeat(x);
  case 13:
    return addExpand(x);
  case 14:
    return addSum(x);
  case 15:
    return addLookup();
  case 16:
    return addFill(x);
  case 17:
    return addStructure(x);
  case 18:
  case 19:
    return addNorm(x);
  case 20:
  case 21:
    return addConvolution();
  default:
    return addAttention();
  }
}

void RandomProgram::addProduct(const Tensor &x) {
  if (x.shape.empty() || x.shape.size() > 3)
    return;
  return dice.below(2) ? addLinear(x) : addMatrixProduct(x);
}

void RandomProgram::addLinear(const Tensor &x) {
  const int64_t in = x.shape.back(), out = size();
  Shape shape = x.shape;
  Tensor w = find([&](const Shape &shape) { return shape.size() == 2 && shape[1] == in; }, {out, in});
  shape.back() = w.shape[0];
  const Operand bias = dice.below(2) ? operand(like({w.shape[0]})) : none();
  call("aten.linear", {operand(x), operand(w), bias}, shape);
}

void RandomProgram::addMatrixProduct(const Tensor &x) {
  const int64_t in = x.shape.back(), out = size();
  Shape shape = x.shape;
  Tensor w = find([&](const Shape &shape) { return shape.size() == 2 && shape[0] == in; }, {in, out});
  shape.back() = w.shape[1];
  if (x.shape.size() != 2) {
    call("aten.matmul", {operand(x), operand(w)}, shape);
    return;
  }
  switch (dice.below(4)) {
  case 0:
    call("aten.mm", {operand(x), operand(w)}, shape);
    return;
  case 1: {
    Tensor added = like(dice.below(2) ? shape : Shape{shape[1]});
    call("aten.addmm",
         {operand(added), operand(x), operand(w), integer(dice.below(2) ? 1 : 3),
          integer(dice.below(2) ? 1 : 2)},
         shape);
    return;
  }
  case 2:
    call("aten.einsum", {constant("\"ij,jk->ki\"", "!cleave.str"), list({x, w}), none()},
         {shape[1], shape[0]});
    return;
  default:
    call("aten.matmul", {operand(x), operand(w)}, shape);
  }
}

void RandomProgram::addElementwise(const Tensor &x) {
  if (x.shape.empty() || dice.below(3) == 0) {
    call(dice.below(2) ? "aten.relu" : "aten.neg", {operand(x)}, x.shape);
    return;
  }
  Shape other = x.shape;
  if (dice.below(3) == 0)
    other = {x.shape.back()};
  else if (dice.below(3) == 0)
    other[dice.below(other.size())] = 1;
  Tensor y = like(other);
  if (dice.below(3))
    call("aten.add.Tensor", {operand(x), operand(y), integer(dice.below(2) ? 1 : 2)}, x.shape);
  else
    call("aten.mul.Tensor", {operand(x), operand(y)}, x.shape);
}

/// Two dimensions become one, one becomes two, or a size 1 comes and goes.
void RandomProgram::addView(const Tensor &x) {
  Shape shape = x.shape;
  if (shape.empty())
    return;
  const uint32_t dim = dice.below(shape.size());
  Tensor from = x;
  if (dice.below(4) == 0 && shape.size() < 4 && shape[dim] % 2 == 0) {
    shape.insert(shape.begin() + dim + 1, 2);
    shape[dim] /= 2;
    const int64_t inner = dice.below(2) ? -1 : 2;
    call("aten.unflatten.int", {operand(x), integer(dim), sizes({shape[dim], inner})}, shape);
    return;
  }
  if (dim + 1 < shape.size() && dice.below(2)) {
    shape[dim] *= shape[dim + 1];
    shape.erase(shape.begin() + dim + 1);
    if (dice.below(3) == 0) {
      call("aten.flatten.using_ints", {operand(x), integer(dim), integer(dim + 1)}, shape);
      return;
    }
  } else if (shape.size() < 4 && shape[dim] % 2 == 0) {
    const bool isOutside = dice.below(2);
    shape.insert(shape.begin() + dim + isOutside, 2);
    shape[dim + !isOutside] /= 2;
  } else if (shape.size() < 4) {
    shape.insert(shape.begin() + dim, 1);
  }
  Shape given = shape;
  if (dice.below(3) == 0)
    given[dice.below(given.size())] = -1;
  const bool isView = dice.below(2);
  if (isView)
    from = call("aten.contiguous", {operand(x), integer(0)}, x.shape);
  call(isView ? "aten.view" : "aten.reshape", {operand(from), sizes(given)}, shape);
}

void RandomProgram::addReorder(const Tensor &x) {
  const uint32_t rank = x.shape.size();
  if (rank == 0)
    return;
  const uint32_t dim = dice.below(rank), other = dice.below(rank);
  Shape shape = x.shape;
  switch (dice.below(4)) {
  case 0:
    call("aten.flip", {operand(x), integers({dim})}, shape);
    return;
  case 1:
    call("aten.roll", {operand(x), integers({int64_t(dice.below(5)) - 2}), integers({dim})}, shape);
    return;
  case 2:
    std::swap(shape[dim], shape[other]);
    call("aten.transpose.int", {operand(x), integer(dim), integer(int64_t(other) - rank)}, shape);
    return;
  }
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + dim, order.end());
  for (uint32_t i = 0; i < rank; ++i)
    shape[i] = x.shape[order[i]];
  call("aten.permute", {operand(x), integers(order)}, shape);
}

void RandomProgram::addSplit(const Tensor &x) {
  const uint32_t dim = dice.below(std::max<size_t>(x.shape.size(), 1));
  if (x.shape.empty() || x.shape[dim] < 2)
    return;
  const int64_t all = x.shape[dim], half = (all + 1) / 2;
  const int64_t first = 1 + dice.below(all - 1);
  switch (dice.below(4)) {
  case 0:
    return pieces("aten.split_with_sizes", {operand(x), integers({first, all - first}), integer(dim)},
                  x.shape, dim, {first, all - first});
  case 1:
    return pieces("aten.chunk", {operand(x), integer(2), integer(dim)}, x.shape, dim, {half, all - half});
  case 2:
    return pieces("aten.split.Tensor", {operand(x), integer(half), integer(dim)}, x.shape, dim,
                  {half, all - half});
  default:
    return pieces("aten.tensor_split.sections", {operand(x), integer(2), integer(dim)}, x.shape, dim,
                  {half, all - half});
  }
}

void RandomProgram::addJoin(const Tensor &x) {
  const uint32_t dim = dice.below(std::max<size_t>(x.shape.size(), 1));
  if (x.shape.empty() || x.shape[dim] > 8)
    return;
  auto fits = [&](Shape shape) {
    if (shape.size() != x.shape.size() || shape[dim] > 8)
      return false;
    shape[dim] = x.shape[dim];
    return shape == x.shape;
  };
  Tensor other = find(fits, x.shape);
  Shape shape = x.shape;
  if (dice.below(4) == 0 && other.shape == x.shape && shape.size() < 4) {
    shape.insert(shape.begin() + dim, 2);
    call("aten.stack", {list({x, other}), integer(dim)}, shape);
    return;
  }
  shape[dim] += other.shape[dim];
  call("aten.cat", {list({x, other}), integer(int64_t(dim) - int64_t(shape.size()))}, shape);
}

/// A part of a dimension.
void RandomProgram::addCut(const Tensor &x) {
  if (x.shape.empty())
    return;
  const uint32_t dim = dice.below(x.shape.size());
  const int64_t all = x.shape[dim];
  Shape shape = x.shape;
  if (all < 2)
    return;
  if (dice.below(4) == 0 && shape.size() > 1) {
    shape.erase(shape.begin() + dim);
    call("aten.select.int", {operand(x), integer(dim), integer(dice.below(2) ? -1 : 1)}, shape);
    return;
  }
  const int64_t begin = dice.below(all - 1);
  if (dice.below(2)) {
    shape[dim] = 1 + dice.below(all - begin);
    call("aten.narrow", {operand(x), integer(dim), integer(begin), integer(shape[dim])}, shape);
    return;
  }
  const int64_t step = 1 + dice.below(3);
  shape[dim] = (all - begin + step - 1) / step;
  call("aten.slice.Tensor",
       {operand(x), integer(dim), begin == 0 && dice.below(2) ? none() : integer(begin - all),
        dice.below(2) ? none() : integer(1000), integer(step)},
       shape);
}

void RandomProgram::addRepeat(const Tensor &x) {
  if (x.shape.empty())
    return;
  const uint32_t dim = dice.below(x.shape.size());
  Shape shape = x.shape;
  if (shape[dim] > 4)
    return;
  const int64_t times = 2 + dice.below(2);
  shape[dim] *= times;
  if (dice.below(2)) {
    call("aten.repeat_interleave.self_int", {operand(x), integer(times), integer(dim), none()}, shape);
    return;
  }
  Shape repeats(shape.size(), 1);
  repeats[dim] = times;
  call("aten.repeat", {operand(x), sizes(repeats)}, shape);
}

void RandomProgram::addExpand(const Tensor &x) {
  if (x.shape.empty() || x.shape.size() > 3)
    return;
  const uint32_t dim = dice.below(x.shape.size() + 1);
  Shape shape = x.shape;
  shape.insert(shape.begin() + dim, 1);
  Tensor one = call("aten.unsqueeze", {operand(x), integer(dim)}, shape);
  shape[dim] = dice.below(2) ? 2 : 4;
  if (dice.below(4) == 0) {
    call("aten.expand_as", {operand(one), operand(like(shape))}, shape);
    return;
  }
  Shape given = shape;
  if (dice.below(2))
    given[dim ? 0 : 1] = -1;
  call("aten.expand", {operand(one), sizes(given), flag(false)}, shape);
}

void RandomProgram::addSum(const Tensor &x) {
  if (x.shape.size() < 2)
    return;
  const uint32_t dim = dice.below(x.shape.size());
  const bool keeps = dice.below(2);
  Shape shape = x.shape;
  if (keeps)
    shape[dim] = 1;
  else
    shape.erase(shape.begin() + dim);
  if (dice.below(3) == 0)
    call("aten.amax", {operand(x), integers({dim}), flag(keeps)}, shape);
  else if (!isExact && dice.below(2))
    call("aten.mean.dim", {operand(x), integers({dim}), flag(keeps), none()}, shape);
  else
    call("aten.sum.dim_IntList", {operand(x), integers({dim}), flag(keeps), none()}, shape);
}

/// Tests give integer inputs numbers below 3.
void RandomProgram::addLookup() {
  const int64_t rows = 3 + dice.below(4), width = size();
  Tensor table = find([](const Shape &shape) { return shape.size() == 2 && shape[0] >= 3; }, {rows, width});
  const Shape ids = dice.below(2) ? Shape{2} : Shape{2, size()};
  Shape shape = ids;
  shape.push_back(table.shape[1]);
  const Operand indices = input(ids, isExact ? "i32" : "i64");
  call("aten.embedding", {operand(table), indices, integer(-1), flag(false), flag(false)}, shape);
}

/// Tensors out of sizes alone.
void RandomProgram::addFill(const Tensor &x) {
  if (x.shape.empty())
    return;
  Tensor made = call("aten.new_full",
                     {operand(x), sizes(x.shape), integer(2), none(), none(), none(), none()}, x.shape);
  call("aten.add.Tensor", {operand(x), operand(made), integer(1)}, x.shape);
}

/// What is no operator: branches, states and boundaries.
void RandomProgram::addStructure(const Tensor &x) {
  const std::string own = type(x.shape), number = std::to_string(structures++);
  if (x.shape.empty())
    return;
  Tensor result{name(), x.shape};
  switch (dice.below(3)) {
  case 0: {
    const Tensor other = like(x.shape);
    const std::string inner = name();
    body += "  " + result.name + " = cleave.if " + input({}, "i1").name + " : " + own + " {\n    " + inner +
            " = aten.neg(" + x.name + ") : (" + own + ") -> " + own + "\n    cleave.yield " + inner + " : " +
            own + "\n  } else {\n    cleave.yield " + other.name + " : " + own + "\n  }\n";
    break;
  }
  case 1: {
    // One that nobody reads is none.
    const Tensor first = weight(x.shape), other = like(x.shape);
    const std::string next = name(), one = integer(1).name;
    body += "  " + result.name + " = cleave.read_state \"s" + number + "\" from " + first.name + " : (" +
            own + ") -> " + own + "\n";
    tail += "  " + next + " = aten.add.Tensor(" + result.name + ", " + other.name + ", " + one + ") : (" +
            own + ", " + own + ", i64) -> " + own + "\n  cleave.write_state \"s" + number + "\" " + next +
            " : " + own + "\n";
    break;
  }
  default:
    body += "  " + result.name + " = cleave.boundary " + x.name + " \"m" + number + "\" output 0 : (" + own +
            ") -> " + own + "\n";
  }
  values.push_back(result);
}

void RandomProgram::addNorm(const Tensor &x) {
  if (x.shape.size() < 2)
    return;
  const int64_t channels = x.shape[1], last = x.shape.back();
  switch (dice.below(4)) {
  case 0:
    call("aten.softmax.int", {operand(x), integer(int64_t(dice.below(x.shape.size()))), none()}, x.shape);
    return;
  case 1:
    call("aten.layer_norm",
         {operand(x), integers({last}), operand(weight({last})), operand(weight({last})), real("1.0"),
          flag(false)},
         x.shape);
    return;
  case 2:
    call("aten.group_norm",
         {operand(x),
          integer(channels % 2    ? channels
                  : dice.below(2) ? 2
                                  : channels),
          operand(like({channels})), operand(like({channels})), real("1.0"), flag(false)},
         x.shape);
    return;
  default:
    // A variance is not negative: without one's own, that of the whole is one.
    const Operand ones = operand(
        call("aten.new_full",
             {operand(weight({channels})), integers({channels}), integer(2), none(), none(), none(), none()},
             {channels}));
    call("aten.batch_norm",
         {operand(x), operand(like({channels})), operand(like({channels})), operand(weight({channels})), ones,
          flag(false), real("0.1"), real("1.0"), flag(false)},
         x.shape);
  }
}

void RandomProgram::addConvolution() {
  const int64_t groups = std::vector<int64_t>{1, 2, 4}[dice.below(3)];
  auto fits = [&](const Shape &shape) { return shape.size() == 3 && shape[1] % groups == 0; };
  const Tensor x = find(fits, {2, 4, 5});
  const int64_t out = groups * (1 + dice.below(2)), in = x.shape[1] / groups;
  const bool isTransposed = dice.below(3) == 0;
  const Tensor w = weight(isTransposed ? Shape{x.shape[1], out / groups, 3} : Shape{out, in, 3});
  const Operand bias = dice.below(2) ? operand(like({out})) : none();
  const Operand one = integers({1});
  const Shape shape{x.shape[0], out, x.shape[2]};
  if (isTransposed)
    call("aten.conv_transpose1d",
         {operand(x), operand(w), bias, one, one, integers({0}), integer(groups), one}, shape);
  else
    call("aten.conv1d", {operand(x), operand(w), bias, one, one, one, integer(groups)}, shape);
}

/// Of heads that share keys, at times.
void RandomProgram::addAttention() {
  const int64_t groups = 1 + dice.below(3), each = 1 + dice.below(3), positions = size(), width = 4;
  const bool isGrouped = each > 1;
  const Shape queries{2, groups * each, positions, width}, keys{2, groups, positions, width};
  // Values may be grouped in another way.
  const Shape &values = isGrouped && dice.below(4) == 0 ? queries : keys;
  auto heads = [&](const Shape &shape) {
    const Tensor x = like({2, positions, size()});
    const Tensor w = weight({shape[1] * width, x.shape[2]});
    const Tensor flat =
        call("aten.linear", {operand(x), operand(w), none()}, {2, positions, shape[1] * width});
    const Tensor apart = call("aten.view", {operand(flat), sizes({2, positions, shape[1], width})},
                              {2, positions, shape[1], width});
    return call("aten.transpose.int", {operand(apart), integer(1), integer(2)}, shape);
  };
  const Tensor q = heads(queries), k = heads(keys), v = heads(values);
  const Operand mask = dice.below(2) ? operand(like({2, 1, positions, positions})) : none();
  const Tensor y = call(
      "aten.scaled_dot_product_attention",
      {operand(q), operand(k), operand(v), mask, real("0.0"), flag(false), none(), flag(isGrouped)}, queries);
  const Tensor back =
      call("aten.transpose.int", {operand(y), integer(1), integer(2)}, {2, positions, queries[1], width});
  call("aten.reshape", {operand(back), sizes({2, positions, queries[1] * width})},
       {2, positions, queries[1] * width});
}

} // namespace cleave
