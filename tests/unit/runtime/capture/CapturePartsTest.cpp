//===- CapturePartsTest.cpp - Parts of captured values --------------------===//
#include "runtime/capture/CaptureParts.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

/// A capture point whose tensor-parallel rank r has the ranges `ofRanks[r]`, (dimension, offset, size) each,
/// those of one dimension one after the other.
static plan::CapturePoint pointWith(const std::vector<std::vector<std::array<int64_t, 3>>> &ofRanks) {
  plan::CapturePoint point;
  point.path = "m";
  for (uint32_t rank = 0; rank < ofRanks.size(); ++rank) {
    auto slot = std::make_unique<plan::CaptureSlot>();
    slot->tp_rank = rank;
    for (auto [dim, offset, size] : ofRanks[rank]) {
      if (slot->ranges.empty() || slot->ranges.back()->dim != dim) {
        slot->ranges.push_back(std::make_unique<plan::wire::DimRangesT>());
        slot->ranges.back()->dim = uint32_t(dim);
      }
      slot->ranges.back()->offsets.push_back(offset);
      slot->ranges.back()->sizes.push_back(size);
    }
    point.slots.push_back(std::move(slot));
  }
  return point;
}

static std::vector<at::Tensor> partsOf(const plan::CapturePoint &point, const at::Tensor &whole) {
  std::vector<at::Tensor> parts;
  for (const auto &slot : point.slots)
    parts.push_back(partOf(point, *slot, whole));
  return parts;
}

TEST(CapturePartsTest, PutsPartsTogether) {
  const at::Tensor whole = at::arange(5 * 8 * 6).reshape({5, 8, 6});
  const plan::CapturePoint points[] = {
      // Halves of a dimension, of different sizes.
      pointWith({{{1, 0, 3}}, {{1, 3, 5}}}),
      // A fused QKV: several ranges a rank.
      pointWith({{{2, 0, 1}, {2, 2, 1}, {2, 4, 1}}, {{2, 1, 1}, {2, 3, 1}, {2, 5, 1}}}),
      // Ranks that hold the same range, as heads that are fewer than ranks.
      pointWith({{{1, 0, 4}}, {{1, 0, 4}}, {{1, 4, 4}}, {{1, 4, 4}}}),
      // Two dimensions.
      pointWith(
          {{{0, 0, 2}, {1, 0, 4}}, {{0, 0, 2}, {1, 4, 4}}, {{0, 2, 3}, {1, 0, 4}}, {{0, 2, 3}, {1, 4, 4}}}),
      // Nothing is split.
      pointWith({{}, {}}),
  };
  for (const plan::CapturePoint &point : points)
    EXPECT_TRUE(at::equal(wholeOf(point, partsOf(point, whole)), whole));
}

TEST(CapturePartsTest, AddsTermsInTheOrderOfRanks) {
  plan::CapturePoint point = pointWith({{}, {}, {}});
  point.partial = true;
  std::vector<at::Tensor> terms{at::randn({100}), at::randn({100}), at::randn({100})};
  EXPECT_TRUE(at::equal(wholeOf(point, terms), (terms[0] + terms[1]) + terms[2]));
  // Narrow floats are rounded once.
  std::vector<at::Tensor> narrow;
  for (const at::Tensor &term : terms)
    narrow.push_back(term.to(at::kBFloat16));
  const at::Tensor sum = (narrow[0].to(at::kFloat) + narrow[1].to(at::kFloat)) + narrow[2].to(at::kFloat);
  EXPECT_TRUE(at::equal(wholeOf(point, narrow), sum.to(at::kBFloat16)));
  // What takes the place of a sum is a term of the first rank.
  const std::vector<at::Tensor> parts = partsOf(point, terms[0]);
  EXPECT_TRUE(at::equal(wholeOf(point, parts), terms[0]));
  EXPECT_FALSE(parts[1].any().item<bool>());
}

TEST(CapturePartsTest, RefusesWhatIsNotThere) {
  const plan::CapturePoint point = pointWith({{{1, 0, 3}}, {{1, 3, 5}}});
  EXPECT_ANY_THROW(partsOf(point, at::zeros({2, 7})));
  EXPECT_ANY_THROW(partsOf(point, at::zeros({2})));
  EXPECT_ANY_THROW(wholeOf(point, {at::zeros({2}), at::zeros({2})}));
  EXPECT_ANY_THROW(wholeOf(point, {at::zeros({2, 3}), at::zeros({2, 4})}));
}

} // namespace cleave::runtime
