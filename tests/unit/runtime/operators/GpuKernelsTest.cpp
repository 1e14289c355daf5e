// Attention for GPUs against libtorch's for CPUs, forward and backward.
#include "runtime/operators/GpuKernels.h"
#include "runtime/device/DeviceWorker.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <limits>

namespace cleave::runtime {
namespace {

using at::Tensor;

struct AttentionCase {
  int64_t heads = 4, keyHeads = 4, rows = 7, columns = 9, width = 8;
  bool isCausal = false;
  /// Empty: no mask. A row of a mask that sees nothing is full of -inf.
  std::vector<int64_t> maskSizes = {};
  bool hidesRow = false;
  at::ScalarType dtype = at::kFloat;
  std::optional<double> scale = std::nullopt;
};

std::vector<AttentionCase> attentionCases() {
  return {{},
          {.width = 5},
          {.rows = 33, .columns = 70, .width = 64, .isCausal = true},
          {.rows = 9, .isCausal = true, .maskSizes = {}},
          {.maskSizes = {7, 9}},
          {.maskSizes = {2, 1, 1, 9}},
          {.maskSizes = {2, 1, 7, 1}},
          {.maskSizes = {2, 4, 7, 9}, .scale = 0.3},
          {.maskSizes = {2, 1, 7, 9}, .hidesRow = true},
          {.keyHeads = 2},
          {.keyHeads = 1, .maskSizes = {1, 1, 7, 9}},
          {.width = 16, .dtype = at::kBFloat16}};
}

void checkLike(const Tensor &found, const Tensor &expected, const char *what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  ASSERT_EQ(found.scalar_type(), expected.scalar_type()) << what;
  const bool isNarrow = expected.scalar_type() == at::kBFloat16;
  const Tensor a = found.cpu().to(at::kDouble), b = expected.to(at::kDouble);
  ASSERT_TRUE(at::equal(a.isinf(), b.isinf())) << what;
  const Tensor difference = (a - b).nan_to_num(0, 0, 0).abs();
  EXPECT_LE(difference.max().item<double>(),
            (isNarrow ? 3e-2 : 2e-5) * b.nan_to_num(0, 0, 0).abs().max().item<double>())
      << what;
}

/// On `device`, against libtorch's kernel on the CPU.
void checkAttention(const AttentionCase &given, c10::Device device) {
  // Not at::manual_seed, which asks for GPUs.
  at::Generator generator = at::detail::createCPUGenerator(1);
  // [batch, rows, heads, width], as projections leave it.
  auto make = [&](int64_t heads, int64_t rows) {
    return at::randn({2, rows, heads, given.width}, generator, at::kFloat).to(given.dtype).transpose(1, 2);
  };
  const Tensor query = make(given.heads, given.rows), key = make(given.keyHeads, given.columns),
               value = make(given.keyHeads, given.columns), gradient = make(given.heads, given.rows);
  std::optional<Tensor> mask;
  if (!given.maskSizes.empty()) {
    mask = at::randn(given.maskSizes, generator, at::kFloat).to(given.dtype);
    if (given.hidesRow)
      mask->select(-2, 3).fill_(-std::numeric_limits<double>::infinity());
  }
  auto [output, sums] = at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, 0, given.isCausal,
                                                                        mask, given.scale);
  auto [byQuery, byKey, byValue] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, query, key, value, output, sums, 0, given.isCausal, mask, given.scale);
  auto there = [&](const Tensor &tensor) { return tensor.to(device); };
  const std::optional<Tensor> maskThere = mask ? std::optional(there(*mask)) : std::nullopt;
  auto [found, foundSums] = scaledDotProductAttention(there(query), there(key), there(value), 0,
                                                      given.isCausal, maskThere, given.scale);
  checkLike(found, output, "output");
  EXPECT_EQ(found.strides(), output.strides());
  if (!given.hidesRow)
    checkLike(foundSums, sums, "sums");
  auto [foundQuery, foundKey, foundValue] =
      scaledDotProductAttentionBackward(there(gradient), there(query), there(key), there(value), found,
                                        foundSums, 0, given.isCausal, maskThere, given.scale);
  checkLike(foundQuery, byQuery, "gradient of the query");
  checkLike(foundKey, byKey, "gradient of the key");
  checkLike(foundValue, byValue, "gradient of the value");
  // Of one row or head, any stride is the same layout.
  EXPECT_TRUE(foundQuery.transpose(1, 2).is_contiguous() && byQuery.transpose(1, 2).is_contiguous());
  EXPECT_TRUE(foundKey.transpose(1, 2).is_contiguous() && byKey.transpose(1, 2).is_contiguous());
}

TEST(AttentionTest, IsThatOfCpus) {
  for (const auto &[index, given] : llvm::enumerate(attentionCases())) {
    SCOPED_TRACE("case " + std::to_string(index));
    checkAttention(given, c10::kCPU);
  }
}

struct AttentionGpuTest : testing::Test {
  void SetUp() override {
    if (auto devices = resolveDevices({"cuda:0"}, 1); !devices)
      GTEST_SKIP() << llvm::toString(devices.takeError());
  }
};

TEST_F(AttentionGpuTest, IsThatOfCpus) {
  for (const auto &[index, given] : llvm::enumerate(attentionCases())) {
    SCOPED_TRACE("case " + std::to_string(index));
    checkAttention(given, c10::Device(c10::kCUDA, 0));
  }
}

} // namespace
} // namespace cleave::runtime
