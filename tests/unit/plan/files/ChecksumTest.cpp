//===- ChecksumTest.cpp ---------------------------------------------------===//
#include "codegen/plan/files/Checksum.h"
#include <gtest/gtest.h>

namespace cleave::plan {

TEST(Checksum, IsBlake3) {
  // The digest of nothing, from the BLAKE3 authors' test vectors.
  EXPECT_EQ(toHex(checksum({})), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

} // namespace cleave::plan
