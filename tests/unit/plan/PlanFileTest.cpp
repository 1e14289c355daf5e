//===- PlanFileTest.cpp ---------------------------------------------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/EncodePlan.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include <gtest/gtest.h>
#include <random>

namespace cleave::plan {

static constexpr size_t kHeaderBytes = 64;
using Bytes = std::vector<uint8_t>;

static std::string decodeMessage(llvm::ArrayRef<uint8_t> bytes) {
  return messageOf(decode(bytes, "plan.fb"));
}

/// Makes the header fit the payload, as someone who forges a plan would.
static void sealHeader(Bytes &bytes) {
  llvm::support::endian::write64le(&bytes[16], bytes.size() - kHeaderBytes);
  llvm::copy(checksum(llvm::ArrayRef(bytes).drop_front(kHeaderBytes)), bytes.begin() + 32);
}

TEST(PlanFile, RoundTrips) {
  Bytes bytes = encode(*makeTwoStagePlan());
  auto decoded = decode(bytes, "plan.fb");
  ASSERT_TRUE(static_cast<bool>(decoded)) << messageOf(decoded.takeError());
  EXPECT_EQ((*decoded)->weights[2]->aliases, std::vector<std::string>{"head.weight"});
  EXPECT_EQ((*decoded)->schedules[0]->microbatches, 2u);
  EXPECT_EQ(encode(**decoded), bytes);
}

TEST(PlanFile, SamePlanGivesSameBytes) {
  EXPECT_EQ(encode(*makeTwoStagePlan()), encode(*makeTwoStagePlan()));
}

TEST(PlanFile, DecodesAtAnyAddress) {
  Bytes bytes = encode(*makeTwoStagePlan()), moved(1);
  moved.insert(moved.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(decodeMessage(llvm::ArrayRef(moved).drop_front()), "");
}

TEST(PlanFile, RefusesEveryFlippedBit) {
  Bytes bytes = encode(*makeTwoStagePlan());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= 1 << bit % 8;
    ASSERT_NE(decodeMessage(bytes), "") << "bit " << bit;
    bytes[bit / 8] ^= 1 << bit % 8;
  }
}

TEST(PlanFile, RefusesEveryTruncationAndTrailingBytes) {
  Bytes bytes = encode(*makeTwoStagePlan());
  for (size_t length = 0; length < bytes.size(); ++length)
    ASSERT_NE(decodeMessage(llvm::ArrayRef(bytes).take_front(length)), "") << length;
  bytes.push_back(0);
  EXPECT_NE(decodeMessage(bytes).find("truncated or damaged"), std::string::npos);
}

TEST(PlanFile, RefusesSealedTruncations) {
  Bytes bytes = encode(*makeTwoStagePlan());
  for (size_t length = bytes.size() - 1; length >= kHeaderBytes; --length) {
    bytes.resize(length);
    sealHeader(bytes);
    ASSERT_NE(decodeMessage(bytes), "") << length;
  }
}

TEST(PlanFile, TellsOfANewerFormat) {
  Bytes bytes = encode(*makeTwoStagePlan());
  bytes[8] = kFormatVersion + 1;
  EXPECT_EQ(decodeMessage(bytes),
            "plan.fb: its format version is 4, this cleave reads 3; use a newer cleave, or "
            "compile the model again with this one");
}

TEST(PlanFile, RefusesOtherFiles) {
  std::string text = "PK\x03\x04 this is an archive, long enough to hold the header of a plan if it were one";
  EXPECT_NE(decodeMessage(llvm::arrayRefFromStringRef(text)).find("it is no plan"), std::string::npos);
}

// What passes must be as good as a plan of our own: it can be encoded, which walks all of it.
TEST(PlanFile, SurvivesForgedPayloads) {
  const Bytes original = encode(*makeTwoStagePlan());
  std::mt19937 random(20240);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = original;
    for (int change = 0, changes = 1 + random() % 4; change < changes; ++change) {
      size_t at = kHeaderBytes + random() % (bytes.size() - kHeaderBytes);
      // Small numbers hit offsets and indices, random ones everything else.
      bytes[at] = random() % 2 ? random() % 8 : random();
    }
    sealHeader(bytes);
    if (auto plan = decode(bytes, "plan.fb"))
      EXPECT_FALSE(encode(**plan).empty());
    else
      EXPECT_NE(messageOf(plan.takeError()), "");
  }
}

// A few bytes that unpack to gigabytes.
TEST(PlanFile, RefusesPayloadsThatReferToOneStringOften) {
  flatbuffers::FlatBufferBuilder builder;
  auto text = builder.CreateString(std::string(1000, 'x'));
  auto paths = builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(1000, text));
  wire::PlanBuilder plan(builder);
  plan.add_paths(paths);
  builder.Finish(plan.Finish());
  Bytes bytes = encode(*makeTwoStagePlan());
  bytes.resize(kHeaderBytes);
  bytes.insert(bytes.end(), builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  sealHeader(bytes);
  EXPECT_EQ(decodeMessage(bytes),
            "plan.fb: it is malformed: its parts overlap or are misaligned; compile the model again");
}

TEST(PlanFile, ReadsAPlanDirectory) {
  TestFolder folder;
  writeTwoStagePlan(folder.path());
  auto loaded = readPlan(folder.path());
  ASSERT_TRUE(static_cast<bool>(loaded)) << messageOf(loaded.takeError());
  std::string bytes = readFile(folder.at("plan.fb"));
  EXPECT_EQ(loaded->rootChecksum, checksum(llvm::arrayRefFromStringRef(bytes.substr(kHeaderBytes))));
}

TEST(PlanFile, NamesAFolderWithoutAPlan) {
  TestFolder folder;
  EXPECT_EQ(messageOf(readPlan(folder.path())),
            "cannot read '" + folder.at("plan.fb") +
                "': there is no such file; give the folder that `cleave compile` "
                "wrote");
}

} // namespace cleave::plan
