//===- ChecksumTest.cpp ---------------------------------------------------===//
#include "codegen/plan/Checksum.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include <gtest/gtest.h>

namespace cleave::plan {

TEST(Checksum, IsBlake3) {
  // The digest of nothing, from the BLAKE3 authors' test vectors.
  EXPECT_EQ(toHex(checksum({})), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

TEST(Checksum, OfAFileIsThatOfItsBytes) {
  TestFolder folder;
  // Longer than the pieces in which it is read.
  std::string contents(3'000'000, 'x');
  contents[2'500'000] = 'y';
  writeFile(folder.at("file"), contents);
  auto digest = checksumOfFile(folder.at("file"));
  ASSERT_TRUE(static_cast<bool>(digest));
  EXPECT_EQ(*digest, checksum(llvm::arrayRefFromStringRef(contents)));
}

TEST(Checksum, OfAMissingFileNamesIt) {
  TestFolder folder;
  std::string message = messageOf(checksumOfFile(folder.at("none")));
  EXPECT_NE(message.find("cannot read '" + folder.at("none") + "'"), std::string::npos) << message;
}

} // namespace cleave::plan
