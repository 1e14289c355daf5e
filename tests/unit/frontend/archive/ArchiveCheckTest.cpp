//===- ArchiveCheckTest.cpp - Whether a model file is intact --------------===//
#include "frontend/archive/ArchiveCheck.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <random>

using namespace cleave;

namespace {
using Bytes = std::vector<uint8_t>;

/// An archive as torch.jit.save makes it: stored, compressed and empty records.
Bytes makeArchive() {
  Bytes archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, size_t count) {
    auto *begin = static_cast<const uint8_t *>(bytes);
    archive.insert(archive.end(), begin, begin + count);
    return count;
  });
  std::string code;
  for (int i = 0; i < 20; ++i)
    code += "  _" + std::to_string(i) + " = torch.add(x, getattr(self, \"" + std::to_string(i * 7) + "\"))\n";
  std::string weight(100, '\1');
  writer.writeRecord("data/0", weight.data(), weight.size());
  writer.writeRecord("data/1", nullptr, 0);
  writer.writeRecord("code/__torch__.py", code.data(), code.size(), /*compress=*/true);
  writer.writeEndOfFile();
  return archive;
}

/// The error of a check; empty when the archive is accepted.
std::string errorOf(const Bytes &archive) {
  try {
    auto records = checkArchive(archive, [](size_t, size_t) {});
    return records ? "" : llvm::toString(records.takeError());
  } catch (const std::exception &e) {
    return e.what();
  }
}

/// Where the first directory entry begins.
size_t directoryOf(const Bytes &archive) {
  return llvm::support::endian::read32le(&archive[archive.size() - 6]);
}
} // namespace

TEST(ArchiveCheck, FindsTheRecords) {
  Bytes archive = makeArchive();
  auto records = checkArchive(archive, [](size_t, size_t) {});
  ASSERT_TRUE(bool(records)) << llvm::toString(records.takeError());
  ASSERT_GE(records->size(), 3u);
  EXPECT_EQ((*records)[0].name, "data/0");
  EXPECT_EQ((*records)[0].size, 100u);
  EXPECT_EQ((*records)[0].offset % 64, 0u);
  EXPECT_EQ(archive[(*records)[0].offset], 1);
  EXPECT_EQ((*records)[1].size, 0u);
  EXPECT_TRUE((*records)[2].isCompressed);
}

TEST(ArchiveCheck, RefusesEveryFlippedBit) {
  Bytes archive = makeArchive();
  for (size_t bit = 0; bit < 8 * archive.size(); ++bit) {
    archive[bit / 8] ^= 1 << bit % 8;
    ASSERT_NE(errorOf(archive), "") << "bit " << bit % 8 << " of byte " << bit / 8;
    archive[bit / 8] ^= 1 << bit % 8;
  }
}

TEST(ArchiveCheck, RefusesEveryTruncation) {
  Bytes archive = makeArchive();
  for (size_t size = 0; size < archive.size(); ++size)
    ASSERT_NE(errorOf(Bytes(archive.begin(), archive.begin() + size)), "") << size << " bytes";
}

TEST(ArchiveCheck, RefusesBytesAroundTheArchive) {
  Bytes archive = makeArchive(), longer = archive;
  longer.push_back(0);
  EXPECT_NE(errorOf(longer), "");
  archive.insert(archive.begin(), 0);
  EXPECT_NE(errorOf(archive), "");
}

// Fields in which sizes and offsets are as wrong as they can be must not be followed.
TEST(ArchiveCheck, RefusesRandomDamage) {
  const Bytes archive = makeArchive();
  std::mt19937 random(0);
  const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = archive;
    for (unsigned i = 0, places = 1 + random() % 3; i < places; ++i) {
      // Mostly in the directory and the end records, whose fields say where to read.
      size_t from = random() % 4 ? directoryOf(archive) : 0, at = from + random() % (archive.size() - from);
      for (size_t length = 1 + random() % 8; length-- > 0 && at < damaged.size(); ++at)
        damaged[at] = random() % 2 ? values[random() % 5] : random();
    }
    ASSERT_TRUE(damaged == archive || errorOf(damaged) != "") << "round " << round;
  }
}

/// The archive with another name of the second record, in its header and in the directory: only the name is
/// wrong.
static Bytes renameSecond(const std::string &name) {
  Bytes archive = makeArchive();
  const std::string second = "data/1";
  for (size_t at = 0; at + second.size() < archive.size(); ++at)
    if (std::equal(second.begin(), second.end(), archive.begin() + at))
      std::copy(name.begin(), name.end(), archive.begin() + at);
  return archive;
}

TEST(ArchiveCheck, RefusesARecordTwice) {
  // libtorch takes one of those that differ in case alone.
  for (const char *name : {"data/0", "Data/0"})
    EXPECT_NE(errorOf(renameSecond(name)).find("twice"), std::string::npos) << errorOf(renameSecond(name));
}

TEST(ArchiveCheck, NamesTheDamagedRecord) {
  Bytes archive = makeArchive();
  auto records = checkArchive(archive, [](size_t, size_t) {});
  ASSERT_TRUE(bool(records));
  archive[records->front().offset] ^= 1;
  EXPECT_EQ(errorOf(archive), "record data/0 is damaged (its CRC32 differs); copy or save the model again");
}
