//===- RandomOperators.cpp ------------------------------------------------===//
#include "random/RandomOperators.h"
#include "random/Philox.h"
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <cmath>
#include <numbers>
#include <torch/library.h>

namespace cleave {

using at::ScalarType;
using at::Tensor;
using at::TensorList;

//===- Checks -------------------------------------------------------------===//

static std::vector<int64_t> shapeOf(const Tensor &key, TensorList indices) {
  TORCH_CHECK(key.scalar_type() == at::kLong && key.numel() == 1, "found a key of ", key.numel(),
              " elements of ", key.scalar_type(), ", expected one of int64");
  TORCH_CHECK(!indices.empty(), "found no indices, expected a tensor");
  std::vector<int64_t> shape;
  for (const Tensor &each : indices) {
    TORCH_CHECK(each.scalar_type() == at::kLong, "found indices of ", each.scalar_type(), ", expected int64");
    TORCH_CHECK(each.device() == key.device(), "found indices on ", each.device(), " and a key on ",
                key.device(), ", expected one device");
    shape = at::infer_size(shape, each.sizes());
  }
  return shape;
}

/// Random bits of a uniform number: the dtype's significand precision, at most 24, so that none is rounded
/// to 1.
static int bitsOf(ScalarType dtype) {
  switch (dtype) {
  case at::kHalf:
    return 11;
  case at::kBFloat16:
    return 8;
  case at::kFloat:
  case at::kDouble:
    return 24;
  default:
    TORCH_CHECK(false, "found dtype ", dtype, ", expected one of floating point");
  }
}

static void checkBernoulli(double p, ScalarType dtype) {
  TORCH_CHECK(p >= 0 && p <= 1, "found probability ", p, ", expected 0 to 1");
  TORCH_CHECK(isFloatingType(dtype) || isIntegralType(dtype, /*includeBool=*/true), "found dtype ", dtype,
              ", expected one of real numbers");
}

//===- Any device: operations of ATen -------------------------------------===//

namespace {
/// 32-bit numbers in int64 tensors.
struct TensorPhilox {
  static constexpr int64_t kMask = 0xFFFFFFFF;
  Tensor key0, key1;
  int64_t stream;

  TensorPhilox(const Tensor &key, int64_t stream)
      : key0(key.reshape({}).bitwise_and(kMask)),
        key1(at::bitwise_right_shift(key.reshape({}), 32).bitwise_and(kMask)), stream(stream) {}

  /// Numbers by their indices.
  Tensor operator()(const Tensor &index) const {
    const Tensor block = at::bitwise_right_shift(index, 2).bitwise_and(INT64_MAX >> 1);
    std::array<Tensor, 4> x{block.bitwise_and(kMask), at::bitwise_right_shift(block, 32),
                            at::full_like(block, stream & kMask),
                            at::full_like(block, int64_t(uint64_t(stream) >> 32))};
    Tensor roundKey0 = key0, roundKey1 = key1;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      // The product of two 32-bit numbers, modulo 2^64.
      const Tensor left = x[0].mul(int64_t(kPhiloxMultipliers[0])),
                   right = x[2].mul(int64_t(kPhiloxMultipliers[1]));
      auto high = [](const Tensor &product) {
        return at::bitwise_right_shift(product, 32).bitwise_and(kMask);
      };
      x = {high(right).bitwise_xor(x[1]).bitwise_xor(roundKey0), right.bitwise_and(kMask),
           high(left).bitwise_xor(x[3]).bitwise_xor(roundKey1), left.bitwise_and(kMask)};
      roundKey0 = roundKey0.add(int64_t(kPhiloxKeySteps[0])).bitwise_and(kMask);
      roundKey1 = roundKey1.add(int64_t(kPhiloxKeySteps[1])).bitwise_and(kMask);
    }
    const Tensor lane = index.bitwise_and(3);
    return at::where(lane.lt(2), at::where(lane.eq(0), x[0], x[1]), at::where(lane.eq(2), x[2], x[3]));
  }
};
} // namespace

static Tensor sumOf(const Tensor &key, TensorList indices) {
  const auto shape = shapeOf(key, indices);
  Tensor sum = indices.front().expand(shape);
  for (const Tensor &each : indices.slice(1))
    sum = sum.add(each);
  return sum;
}

static Tensor uniform(const Tensor &key, int64_t stream, TensorList indices, ScalarType dtype) {
  const int bits = bitsOf(dtype);
  const Tensor drawn = TensorPhilox(key, stream)(sumOf(key, indices));
  return at::bitwise_right_shift(drawn, 32 - bits).to(dtype).mul(1.0 / (int64_t(1) << bits));
}

static Tensor normal(const Tensor &key, int64_t stream, TensorList indices, ScalarType dtype) {
  bitsOf(dtype);
  const TensorPhilox draw(key, stream);
  const Tensor twice = sumOf(key, indices).mul(2);
  auto real = [](const Tensor &drawn) { return at::bitwise_right_shift(drawn, 8).to(at::kDouble); };
  const Tensor radius = real(draw(twice)).add(1).mul(0x1p-24).log().mul(-2).sqrt();
  const Tensor angle = real(draw(twice.add(1))).mul(2 * std::numbers::pi * 0x1p-24);
  return radius.mul(angle.cos()).to(dtype);
}

static Tensor bernoulli(const Tensor &key, int64_t stream, TensorList indices, double p, ScalarType dtype) {
  checkBernoulli(p, dtype);
  const Tensor drawn = at::bitwise_right_shift(TensorPhilox(key, stream)(sumOf(key, indices)), 8);
  return drawn.lt(int64_t(std::ceil(p * 0x1p24))).to(dtype);
}

//===- CPU ----------------------------------------------------------------===//

namespace {
/// Element indices as a sum: element (r, c) has index rows[r] + columns[c], c along the last dimension.
struct RowIndices {
  std::vector<int64_t> shape;
  int64_t width;
  Tensor rows, columns;
  /// Each column is one more than the one before.
  bool isConsecutive;

  RowIndices(const Tensor &key, TensorList indices) : shape(shapeOf(key, indices)) {
    if (shape.empty())
      shape = {1};
    width = shape.back();
    std::vector<int64_t> outer(shape.begin(), shape.end() - 1);
    rows = at::zeros(outer, at::kLong);
    columns = at::zeros({width}, at::kLong);
    for (const Tensor &each : indices) {
      const bool hasColumns = each.dim() > 0 && each.size(-1) != 1;
      if (!hasColumns)
        rows = rows.add(each.dim() > 0 ? each.squeeze(-1) : each);
      else if (each.numel() == each.size(-1))
        columns = columns.add(each.reshape({width}));
      else {
        flatten(key, indices);
        return;
      }
    }
    rows = rows.expand(outer).contiguous().flatten();
    columns = columns.contiguous();
    isConsecutive = columns.slice(0, 1).equal(columns.slice(0, 0, -1).add(1));
  }

  /// Where they are no such sum: each element is a row of its own.
  void flatten(const Tensor &key, TensorList indices) {
    rows = sumOf(key, indices).contiguous().flatten();
    columns = at::zeros({1}, at::kLong);
    width = 1;
    isConsecutive = true;
  }
};
} // namespace

/// Numbers that are converted at a time.
static constexpr int64_t kChunk = 1024;

/// Makes elements from numbers: `convert(numbers, count, elements)`; `perElement` numbers each, 1 or 2.
template <typename T, typename Convert>
static Tensor drawRows(const Tensor &key, int64_t stream, TensorList indices, ScalarType dtype,
                       uint64_t perElement, Convert convert) {
  const RowIndices index(key, indices);
  Tensor result = at::empty(shapeOf(key, indices), key.options().dtype(dtype));
  const Philox philox{uint64_t(key.item<int64_t>()), uint64_t(stream)};
  const int64_t *rows = index.rows.const_data_ptr<int64_t>(),
                *columns = index.columns.const_data_ptr<int64_t>();
  T *data = result.data_ptr<T>();
  // Parts of elements, as rows may be short or few.
  at::parallel_for(0, result.numel(), 8 * kChunk, [&](int64_t begin, int64_t end) {
    uint32_t numbers[2 * kChunk];
    while (begin < end) {
      const int64_t row = begin / index.width, column = begin % index.width;
      const int64_t count = std::min({end - begin, index.width - column, kChunk});
      auto numberOf = [&](int64_t i) { return perElement * (uint64_t(rows[row]) + uint64_t(columns[i])); };
      if (index.isConsecutive)
        philox.fill(numberOf(column), perElement * count, numbers);
      else
        for (int64_t i = 0; i < count; ++i)
          philox.fill(numberOf(column + i), perElement, numbers + perElement * i);
      convert(numbers, count, data + begin);
      begin += count;
    }
  });
  return result;
}

static Tensor uniformOnCpu(const Tensor &key, int64_t stream, TensorList indices, ScalarType dtype) {
  const int bits = bitsOf(dtype);
  const float scale = 1.0f / float(int64_t(1) << bits);
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "random::uniform", [&] {
    return drawRows<scalar_t>(key, stream, indices, dtype, 1,
                              [=](const uint32_t *numbers, int64_t count, scalar_t *elements) {
                                for (int64_t i = 0; i < count; ++i)
                                  elements[i] = scalar_t(float(numbers[i] >> (32 - bits)) * scale);
                              });
  });
}

static Tensor normalOnCpu(const Tensor &key, int64_t stream, TensorList indices, ScalarType dtype) {
  bitsOf(dtype);
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "random::normal", [&] {
    return drawRows<scalar_t>(
        key, stream, indices, dtype, 2, [](const uint32_t *numbers, int64_t count, scalar_t *elements) {
          for (int64_t i = 0; i < count; ++i) {
            const double radius = std::sqrt(-2 * std::log(((numbers[2 * i] >> 8) + 1) * 0x1p-24));
            const double angle = (numbers[2 * i + 1] >> 8) * (2 * std::numbers::pi * 0x1p-24);
            elements[i] = scalar_t(radius * std::cos(angle));
          }
        });
  });
}

static Tensor bernoulliOnCpu(const Tensor &key, int64_t stream, TensorList indices, double p,
                             ScalarType dtype) {
  checkBernoulli(p, dtype);
  const auto limit = uint32_t(std::ceil(p * 0x1p24));
  return AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "random::bernoulli", [&] {
    return drawRows<scalar_t>(key, stream, indices, dtype, 1,
                              [=](const uint32_t *numbers, int64_t count, scalar_t *elements) {
                                for (int64_t i = 0; i < count; ++i)
                                  elements[i] = scalar_t((numbers[i] >> 8) < limit);
                              });
  });
}

//===- Registration -------------------------------------------------------===//

namespace {
Tensor emptyResult(const Tensor &key, TensorList indices, ScalarType dtype) {
  return at::empty(shapeOf(key, indices), key.options().dtype(dtype));
}

Tensor metaUniformOrNormal(const Tensor &key, int64_t, TensorList indices, ScalarType dtype) {
  bitsOf(dtype);
  return emptyResult(key, indices, dtype);
}

Tensor metaBernoulli(const Tensor &key, int64_t, TensorList indices, double p, ScalarType dtype) {
  checkBernoulli(p, dtype);
  return emptyResult(key, indices, dtype);
}

template <typename Uniform, typename Normal, typename Bernoulli>
torch::Library implementation(c10::DispatchKey key, Uniform uniform, Normal normal, Bernoulli bernoulli) {
  torch::Library library(torch::Library::IMPL, "random", key, __FILE__, __LINE__);
  library.impl("uniform", uniform);
  library.impl("normal", normal);
  library.impl("bernoulli", bernoulli);
  return library;
}
} // namespace

void registerRandomOperators() {
  static torch::Library schemas = [] {
    torch::Library library(torch::Library::DEF, "random", std::nullopt, __FILE__, __LINE__);
    library.def("uniform(Tensor key, int stream, Tensor[] indices, ScalarType dtype) -> Tensor");
    library.def("normal(Tensor key, int stream, Tensor[] indices, ScalarType dtype) -> Tensor");
    library.def("bernoulli(Tensor key, int stream, Tensor[] indices, float p, ScalarType dtype) -> Tensor");
    return library;
  }();
  using c10::DispatchKey;
  static torch::Library implementations[] = {
      implementation(DispatchKey::CompositeExplicitAutograd, uniform, normal, bernoulli),
      implementation(DispatchKey::CPU, uniformOnCpu, normalOnCpu, bernoulliOnCpu),
      implementation(DispatchKey::Meta, metaUniformOrNormal, metaUniformOrNormal, metaBernoulli)};
}

} // namespace cleave
