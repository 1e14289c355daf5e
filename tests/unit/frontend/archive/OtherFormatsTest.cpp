//===- OtherFormatsTest.cpp - Model files that are no TorchScript ---------===//
#include "frontend/archive/OtherFormats.h"
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

using namespace cleave;

static std::string describe(const std::vector<uint8_t> &file, llvm::StringRef path = "model") {
  return describeOtherFormat(path, file).value_or("");
}

/// An archive, as torch writes it.
static std::vector<uint8_t> archiveOf(llvm::ArrayRef<const char *> names) {
  std::vector<uint8_t> archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, size_t count) {
    auto *begin = static_cast<const uint8_t *>(bytes);
    archive.insert(archive.end(), begin, begin + count);
    return count;
  });
  for (const char *name : names)
    writer.writeRecord(name, "text", 4);
  writer.writeEndOfFile();
  return archive;
}

static std::vector<uint8_t> bytesOf(llvm::StringRef text) { return {text.bytes_begin(), text.bytes_end()}; }

TEST(OtherFormats, NamesArchivesByTheirRecords) {
  EXPECT_NE(describe(archiveOf({"archive_format", "models/model.json"})).find("torch.export"),
            std::string::npos);
  EXPECT_NE(describe(archiveOf({"serialized_exported_program.json"})).find("torch.export"),
            std::string::npos);
  EXPECT_NE(describe(archiveOf({"data.pkl", "data/0"})).find("torch.save"), std::string::npos);
  EXPECT_EQ(describe(archiveOf({"data.pkl", "constants.pkl", "archive_format"})), "");
  EXPECT_EQ(describe(archiveOf({"weights"})), "");
}

TEST(OtherFormats, NamesFilesByTheirFirstBytes) {
  EXPECT_NE(describe(bytesOf(llvm::StringRef("\x02\0\0\0\0\0\0\0{}", 10))).find("safetensors"),
            std::string::npos);
  EXPECT_NE(describe(bytesOf(llvm::StringRef("\x80\x02\x8a\x0a\x6c", 5))).find("torch.save"),
            std::string::npos);
  EXPECT_NE(describe(bytesOf("import torch\n"), "model.py").find("Python"), std::string::npos);
}

TEST(OtherFormats, LeavesUnknownAndDamagedFilesToOthers) {
  EXPECT_EQ(describe({}), "");
  EXPECT_EQ(describe(bytesOf("PK")), "");
  EXPECT_EQ(describe(bytesOf("PK\x03\x04 and no more")), "");
  EXPECT_EQ(describe(bytesOf(llvm::StringRef("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10))), "");
  std::vector<uint8_t> archive = archiveOf({"archive_format"});
  archive.pop_back();
  EXPECT_EQ(describe(archive), "");
}
