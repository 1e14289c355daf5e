//===- ShardsTest.cpp - openShards ----------------------------------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Safetensors.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/Support/FileSystem.h"
#include <gtest/gtest.h>

namespace cleave::plan {

namespace {
class Shards : public testing::Test {
protected:
  void SetUp() override { plan = writeTwoStagePlan(folder.path()); }
  std::string check() { return messageOf(openShards(*plan, folder.path())); }
  void expectRefused(llvm::StringRef why) {
    std::string message = check();
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }

  TestFolder folder;
  std::unique_ptr<Plan> plan;
  std::string first = folder.at("rank-000.safetensors"), second = folder.at("rank-001.safetensors");
};
} // namespace

TEST_F(Shards, PassAsWritten) { EXPECT_EQ(check(), ""); }

TEST_F(Shards, OfOtherRanksAreNotRead) {
  llvm::sys::fs::remove(first);
  EXPECT_EQ(messageOf(openShards(*plan, folder.path(), {1u})), "");
  EXPECT_NE(messageOf(openShards(*plan, folder.path(), {0u})), "");
}

TEST_F(Shards, AreRefusedWhenMissing) {
  llvm::sys::fs::remove(second);
  expectRefused("rank-001.safetensors: the shard of rank 1 is missing; compile the model again");
}

TEST_F(Shards, AreRefusedWhenSwapped) {
  llvm::sys::fs::rename(first, folder.at("kept"));
  llvm::sys::fs::rename(second, first);
  llvm::sys::fs::rename(folder.at("kept"), second);
  expectRefused("rank-000.safetensors: the shard of rank 0 has");
}

TEST_F(Shards, AreRefusedWhenTruncated) {
  std::string contents = readFile(second);
  writeFile(second, llvm::StringRef(contents).drop_back());
  expectRefused("bytes, the plan tells of " + std::to_string(contents.size()));
}

TEST_F(Shards, AreRefusedWithAnyBitFlipped) {
  const std::string contents = readFile(first);
  for (size_t bit = 0; bit < contents.size() * 8; bit += 61) {
    std::string flipped = contents;
    flipped[bit / 8] ^= 1 << bit % 8;
    writeFile(first, flipped);
    expectRefused("its checksum differs");
  }
}

// The checksums of a forged plan fit its shards.
TEST_F(Shards, AreRefusedWithoutTheirWeights) {
  plan->weights[0]->shards[0]->key = "another";
  expectRefused("weight 'layer0.weight' is missing");
  plan->weights[0]->shards[0]->key = "layer0.weight";
  plan->weights[0]->shards[0]->shape = {8, 16};
  expectRefused("weight 'layer0.weight' is missing, or of another dtype or shape");
}

TEST_F(Shards, AreRefusedWhereTheFileIsNone) {
  llvm::sys::fs::remove(first);
  llvm::sys::fs::create_directory(first);
  expectRefused("the shard of rank 0 cannot be read: it is no regular file");
}

} // namespace cleave::plan
