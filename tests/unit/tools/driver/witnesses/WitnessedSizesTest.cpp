//===- WitnessedSizesTest.cpp - Which sizes witnesses cover ---------------===//
#include "tools/driver/witnesses/WitnessedSizes.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tools/driver/verify/VerifyInputs.h"
#include <gmock/gmock.h>

namespace cleave {

using plan::messageOf;
using plan::WitnessedRange;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Dimensions `dim` of `ids` and `mask`.
static WitnessedDimension group(int64_t dim, int64_t traced, WitnessedRange range) {
  WitnessedDimension result;
  result.places = {{"ids", dim}, {"mask", dim}};
  result.traced = traced;
  result.range = range;
  return result;
}

/// `ids` and `mask` of [4, seq], traced with 4 and 128.
static ModelInputs inputs(const std::string &batch, const std::string &seq, int64_t size = 128) {
  ModelInputs result;
  for (const char *name : {"ids", "mask"})
    result.tensors.push_back({name, at::kLong, {4, size}, {batch, seq}, ""});
  return result;
}

static WitnessFile file(WitnessedRange seq, std::string above = "", std::string where = "") {
  WitnessFile result;
  result.dimensions = {group(0, 4, {1, WitnessedRange::kNoLimit, 1}), group(1, 128, seq)};
  result.dimensions[1].diverges = llvm::StringRef(above).contains("the trace");
  result.dimensions[1].above = std::move(above);
  result.dimensions[1].where = std::move(where);
  return result;
}

static std::vector<std::string> dynamic() { return {"ids=batch,seq", "mask=batch,seq"}; }

TEST(WitnessedSizes, MapsGroupsOntoSymbols) {
  auto sizes = WitnessedSizes::of(file({4, 512, 4}, "at 513 the module fails: IndexError"),
                                  inputs("batch", "seq"), dynamic());
  ASSERT_TRUE(bool(sizes)) << messageOf(sizes.takeError());
  EXPECT_EQ(sizes->ranges.lookup("seq"), (WitnessedRange{4, 512, 4}));
  EXPECT_EQ(sizes->ranges.lookup("batch"), WitnessedRange());
  EXPECT_TRUE(sizes->hasOpened);
  EXPECT_THAT(sizes->notes,
              ElementsAre("seq: trace and module agree at 4 to 512 in multiples of 4 (at 513 the "
                          "module fails: IndexError); run refuses other sizes"));
}

TEST(WitnessedSizes, IntersectsTheGroupsOfASymbol) {
  WitnessFile both = file({4, 512, 4});
  both.dimensions[1].places = {{"ids", 1}};
  WitnessedDimension other = group(1, 128, {16, 2048, 32});
  other.places = {{"mask", 1}};
  both.dimensions.push_back(other);
  auto sizes = WitnessedSizes::of(both, inputs("batch", "seq"), dynamic());
  ASSERT_TRUE(bool(sizes));
  EXPECT_EQ(sizes->ranges.lookup("seq"), (WitnessedRange{16, 512, 32}));
}

TEST(WitnessedSizes, RefusesADimensionThatWasNotCompared) {
  WitnessFile part = file({1, 512, 1});
  part.dimensions[1].places = {{"ids", 1}};
  // An input that the file does not know was added after the trace.
  part.dimensions[0].places = {{"ids", 0}};
  auto sizes = WitnessedSizes::of(part, inputs("batch", "seq"), dynamic());
  ASSERT_TRUE(bool(sizes));
  EXPECT_TRUE(sizes->ranges.contains("seq"));
  part.dimensions[0].places = {{"ids", 0}, {"mask", 0}};
  part.inputNames.insert("mask");
  EXPECT_EQ(messageOf(WitnessedSizes::of(part, inputs("batch", "seq"), dynamic())),
            "--dynamic ids=batch,seq: found no other size of seq at which trace and module were compared, "
            "expected some; give cleave-trace this --dynamic, or, where the module takes no other size by "
            "itself, pass --beyond-witnesses");
}

TEST(WitnessedSizes, RefusesADimensionOfWhichTheModuleTakesOneSize) {
  WitnessFile one = file({128, 128, 1}, "at 129 the module fails: ValueError");
  one.dimensions[1].diverges = false;
  EXPECT_THAT(
      messageOf(WitnessedSizes::of(one, inputs("batch", "seq"), dynamic())),
      HasSubstr("at which trace and module were compared (at 129 the module fails: ValueError), expected"));
}

TEST(WitnessedSizes, RefusesToOpenWhatEqualsTheModuleAtOneSize) {
  auto sizes =
      WitnessedSizes::of(file({128, 128, 1}, "at 129 the trace differs from the module by 0.1", "h.0.attn"),
                         inputs("batch", "seq"), dynamic());
  EXPECT_EQ(
      messageOf(std::move(sizes)),
      "--dynamic ids=batch,seq: found a trace that equals the module at 128 alone (at 129 the trace differs "
      "from the module by 0.1, in h.0.attn), expected one that equals it at several sizes of seq; script the "
      "submodule, or trace at the size that you need");
}

TEST(WitnessedSizes, RefusesTheSizeOfTheInputs) {
  auto sizes =
      WitnessedSizes::of(file({1, 100, 1}, "at 101 the module fails"), inputs("batch", "seq"), dynamic());
  EXPECT_THAT(messageOf(std::move(sizes)),
              AllOf(HasSubstr("--dynamic ids=batch,seq: found 128 for seq, expected 1 to 100"),
                    HasSubstr("at 101 the module fails")));
  // A fixed size, which is refused where it is known to be wrong.
  const WitnessFile frozen = file({128, 128, 1}, "at 64 the trace differs");
  EXPECT_THAT(
      messageOf(WitnessedSizes::of(frozen, inputs("batch", "", 64), {})),
      HasSubstr("input ids: dimension 1 is 64, expected 128, where the trace equals the module (at 64 the "
                "trace differs); trace at the size that you need"));
  EXPECT_EQ(messageOf(WitnessedSizes::of(frozen, inputs("batch", ""), {})), "");
  auto unknown = WitnessedSizes::of(file({1, 100, 1}), inputs("", ""), {});
  ASSERT_TRUE(bool(unknown));
  EXPECT_THAT(unknown->notes,
              ElementsAre(HasSubstr("dimension 1 is 128; trace and module agree"), testing::_));
}

TEST(WitnessedSizes, KnowsNothingOfSizesThatWereChangedTogether) {
  ModelInputs given = inputs("", "seq");
  given.tensors[1].dims[1] = "other";
  EXPECT_THAT(messageOf(WitnessedSizes::of(file({1, 512, 1}), given, {"ids=_,seq", "mask=_,other"})),
              HasSubstr("--dynamic ids=_,seq: found the name seq for dimension 1 of input ids and not for "
                        "dimension 1 of input mask, whose sizes cleave-trace changed together"));
  const WitnessedSizes ignored = WitnessedSizes::ignored(file({1, 512, 1}), given);
  EXPECT_TRUE(ignored.ranges.empty());
}

TEST(WitnessedSizes, LetsMicrobatchesOpenTheBatch) {
  WitnessFile frozen = file({1, 512, 1});
  frozen.dimensions[0].range = {4, 4, 1};
  frozen.dimensions[0].above = "at 5 the trace differs";
  frozen.dimensions[0].diverges = true;
  ModelInputs given = inputs("batch", "");
  given.autoDynamic = "batch";
  auto sizes = WitnessedSizes::of(frozen, given, {});
  ASSERT_TRUE(bool(sizes)) << messageOf(sizes.takeError());
  EXPECT_EQ(sizes->ranges.lookup("batch"), (WitnessedRange{4, 4, 1}));
  EXPECT_FALSE(sizes->hasOpened);
  given.autoDynamic = "";
  EXPECT_THAT(messageOf(WitnessedSizes::of(frozen, given, {})),
              HasSubstr("input ids, dimension batch: found a trace that equals the module at 4 alone"));
}

TEST(WitnessedSizes, MakesUnprintableTextPrintable) {
  auto sizes = WitnessedSizes::of(file({128, 128, 1}, "the trace \x1b[31mred" + std::string(10000, 'x')),
                                  inputs("batch", "seq"), dynamic());
  const std::string message = messageOf(std::move(sizes));
  EXPECT_THAT(message, HasSubstr("\\x1b[31mred"));
  EXPECT_LT(message.size(), 1000u);
}

TEST(WitnessedSizes, MayBeIgnored) {
  const WitnessedSizes sizes =
      WitnessedSizes::ignored(file({128, 128, 1}, "at 129 the trace differs"), inputs("batch", "seq"));
  EXPECT_THAT(sizes.ranges.size(), 0u);
  EXPECT_THAT(
      sizes.notes,
      ElementsAre(
          "seq is dynamic beyond the sizes at which trace and module agree: 128 (at 129 the trace differs)"));
}

TEST(VerifyInputs, TriesSizesThatWitnessesCover) {
  plan::Signature signature;
  auto symbol = std::make_unique<plan::Symbol>();
  symbol->traced = 12;
  symbol->witnessed_min = 3;
  symbol->witnessed_max = 14;
  symbol->witnessed_divisible_by = 4;
  symbol->divisible_by = 2;
  signature.symbols.push_back(std::move(symbol));
  EXPECT_THAT(otherSizes(signature), ElementsAre(ElementsAre(8), ElementsAre(4)));
  signature.symbols[0]->witnessed_max = 100;
  EXPECT_THAT(otherSizes(signature), ElementsAre(ElementsAre(16), ElementsAre(4), ElementsAre(20)));
  signature.symbols[0]->witnessed_min = signature.symbols[0]->witnessed_max = 12;
  EXPECT_THAT(otherSizes(signature), IsEmpty());
}

} // namespace cleave
