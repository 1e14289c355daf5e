//===- SafetensorsTest.cpp ------------------------------------------------===//
#include "codegen/plan/Safetensors.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Program.h"
#include <gtest/gtest.h>
#include <random>

namespace cleave::plan {

/// A file of that header and so many bytes of data.
static std::string makeFile(const std::string &header, size_t dataBytes) {
  std::string length(8, '\0');
  llvm::support::endian::write64le(length.data(), header.size());
  return length + header + std::string(dataBytes, '\0');
}

static std::string openMessage(const std::string &contents) {
  TestFolder folder;
  writeFile(folder.at("file"), contents);
  return messageOf(SafetensorsFile::open(folder.at("file")));
}

static std::vector<TensorEntry> makeEntries() {
  return {{"odd", DType::UInt8, {3}},
          {"weight", DType::Float, {4, 8}},
          {"empty", DType::Int64, {0, 5}},
          {"scalar", DType::Double, {}},
          {"half", DType::BFloat16, {2, 16}}};
}

static uint64_t sizeOf(const TensorEntry &entry) {
  uint64_t bytes = bytesOf(entry.dtype);
  for (int64_t size : entry.shape)
    bytes *= size;
  return bytes;
}

/// Every byte of entry i is i, given in two pieces.
static llvm::Expected<WrittenFile> writeEntries(const std::string &path,
                                                const std::vector<TensorEntry> &entries) {
  return writeSafetensors(path, entries, [&](size_t index, ByteSink sink) -> llvm::Error {
    std::vector<uint8_t> bytes(sizeOf(entries[index]), index);
    if (llvm::Error error = sink(llvm::ArrayRef(bytes).take_front(1)))
      return error;
    return sink(llvm::ArrayRef(bytes).drop_front(bytes.empty() ? 0 : 1));
  });
}

TEST(Safetensors, RoundTrips) {
  TestFolder folder;
  std::vector<TensorEntry> entries = makeEntries();
  WrittenFile written = llvm::cantFail(writeEntries(folder.at("file"), entries));
  auto file = llvm::cantFail(SafetensorsFile::open(folder.at("file")));
  EXPECT_EQ(written.bytes, file->fileBytes());
  EXPECT_EQ(written.digest, *InputFile::open(folder.at("file"))->digest());
  ASSERT_EQ(file->entries().size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const TensorEntry *found = file->find(entries[i].name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->shape, entries[i].shape);
    EXPECT_EQ(found->dtype, entries[i].dtype);
    ASSERT_EQ(found->bytes, sizeOf(entries[i]));
    for (uint64_t byte = 0; byte < found->bytes; ++byte)
      ASSERT_EQ(file->data(*found)[byte], i);
  }
  EXPECT_EQ(file->find("none"), nullptr);
}

TEST(Safetensors, AlignsTensorsAsFarAsTheirSizesAllow) {
  TestFolder folder;
  llvm::cantFail(writeEntries(folder.at("file"), makeEntries()));
  auto file = llvm::cantFail(SafetensorsFile::open(folder.at("file")));
  EXPECT_EQ(file->find("weight")->offset % 64, 0u);
  EXPECT_EQ(file->find("half")->offset % 64, 0u);
  EXPECT_EQ(file->find("scalar")->offset % 8, 0u);
}

// The reference implementation loads our file, and we load what it makes of it.
TEST(Safetensors, AgreesWithThePythonPackage) {
  static constexpr llvm::StringRef kScript =
      "import sys; from safetensors.numpy import load_file, save_file; "
      "save_file(load_file(sys.argv[1]), sys.argv[2], {'format': 'pt'})";
  TestFolder folder;
  std::string ours = folder.at("ours"), theirs = folder.at("theirs");
  std::vector<TensorEntry> entries = makeEntries();
  entries.pop_back(); // numpy has no bfloat16.
  llvm::cantFail(writeEntries(ours, entries));
  ASSERT_EQ(llvm::sys::ExecuteAndWait(CLEAVE_PYTHON, {CLEAVE_PYTHON, "-c", kScript, ours, theirs}), 0);
  auto file = llvm::cantFail(SafetensorsFile::open(theirs));
  ASSERT_EQ(file->entries().size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const TensorEntry *found = file->find(entries[i].name);
    ASSERT_TRUE(found && found->dtype == entries[i].dtype && found->shape == entries[i].shape);
    for (uint64_t byte = 0; byte < found->bytes; ++byte)
      ASSERT_EQ(file->data(*found)[byte], i);
  }
}

TEST(Safetensors, DataMayBeWrittenToInMemoryOnly) {
  TestFolder folder;
  llvm::cantFail(writeEntries(folder.at("file"), makeEntries()));
  std::string before = readFile(folder.at("file"));
  {
    auto file = llvm::cantFail(SafetensorsFile::open(folder.at("file")));
    file->data(*file->find("weight"))[0] = 99;
  }
  EXPECT_EQ(readFile(folder.at("file")), before);
}

TEST(Safetensors, WritesTheSameFileTwice) {
  TestFolder folder;
  EXPECT_EQ(llvm::cantFail(writeEntries(folder.at("a"), makeEntries())).digest,
            llvm::cantFail(writeEntries(folder.at("b"), makeEntries())).digest);
}

TEST(Safetensors, FailedWritesLeaveNothing) {
  TestFolder folder;
  std::vector<TensorEntry> entries = {{"weight", DType::Float, {4}}};
  auto tooLittle = [](size_t, ByteSink sink) { return sink({1, 2, 3}); };
  auto tooMuch = [](size_t, ByteSink sink) { return sink(std::vector<uint8_t>(17)); };
  EXPECT_EQ(messageOf(writeSafetensors(folder.at("file"), entries, tooLittle)),
            "tensor 'weight': 13 of its 16 bytes did not come");
  EXPECT_EQ(messageOf(writeSafetensors(folder.at("file"), entries, tooMuch)),
            "tensor 'weight': more than its 16 bytes came");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  TestFolder folder;
  auto refused = [&](std::vector<TensorEntry> entries) {
    return messageOf(writeEntries(folder.at("file"), entries));
  };
  EXPECT_EQ(refused({{"a", DType::ComplexDouble, {1}}}), "tensor 'a': safetensors cannot hold complex128");
  EXPECT_EQ(refused({{"a", DType::Float, {1}}, {"a", DType::Float, {1}}}),
            "tensor 'a': there are two of that name");
  EXPECT_NE(refused({{"__metadata__", DType::Float, {1}}}), "");
}

TEST(Safetensors, ReadsMetadataAndTrailingSpaces) {
  EXPECT_EQ(openMessage(makeFile(R"({"__metadata__":{"format":"pt"},)"
                                 R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )",
                                 8)),
            "");
  EXPECT_EQ(openMessage(makeFile("{}", 0)), "");
}

TEST(Safetensors, RefusesHostileHeaders) {
  auto one = [](const char *dtype, const char *shape, const char *range) {
    return std::string(R"({"a":{"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           range + "}}";
  };
  struct {
    std::string contents, expected;
  } cases[] = {
      {"", "a safetensors file has more"},
      {makeFile("{}", 0).substr(0, 9), "a safetensors file has more"},
      {std::string(8, '\xff') + "{}", "its header would have 18446744073709551615 bytes"},
      {makeFile("[1]", 0), "its header is no JSON object"},
      {makeFile("{\"a\":", 0), "its header is no JSON"},
      {makeFile("{\"a\":" + std::string(100000, '['), 0), "nested deeper"},
      {makeFile("{\"\xff\":1}", 0), "its header is no JSON"},
      {makeFile("{\"a\":1}", 0), "expected an object"},
      {makeFile(one("F32", "[2]", "[0,8]"), 7), "its tensors take 8 bytes, it has 7"},
      {makeFile(one("F32", "[2]", "[0,8]"), 9), "its tensors take 8 bytes, it has 9"},
      {makeFile(one("F32", "[2]", "[0,7]"), 7), "do not make the 7 bytes"},
      {makeFile(one("F32", "[2]", "[4,12]"), 12), "its data begins at 4"},
      {makeFile(one("F32", "[2]", "[8,0]"), 8), "shape or data_offsets are missing or no sizes"},
      {makeFile(one("F32", "[-2]", "[0,8]"), 8), "shape or data_offsets are missing or no sizes"},
      {makeFile(one("F32", "[1.5]", "[0,8]"), 8), "shape or data_offsets are missing or no sizes"},
      {makeFile(one("F32", "\"x\"", "[0,8]"), 8), "shape or data_offsets are missing or no sizes"},
      {makeFile(one("F32", "[9223372036854775807,4]", "[0,8]"), 8), "do not make the 8 bytes"},
      {makeFile(one("U13", "[2]", "[0,8]"), 8), "dtype 'U13' is not supported"},
      {makeFile(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                6),
       "its data begins at 2, the data before it ends at 4"},
  };
  for (const auto &[contents, expected] : cases) {
    std::string message = openMessage(contents);
    EXPECT_NE(message.find(expected), std::string::npos)
        << "expected: " << expected << "\nfound: " << message;
  }
}

TEST(Safetensors, SurvivesRandomDamage) {
  TestFolder folder;
  llvm::cantFail(writeEntries(folder.at("file"), makeEntries()));
  const std::string original = readFile(folder.at("file"));
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string contents = original;
    for (int change = 0; change < 3; ++change)
      contents[random() % contents.size()] = random();
    writeFile(folder.at("damaged"), contents);
    auto file = SafetensorsFile::open(folder.at("damaged"));
    if (!file) {
      llvm::consumeError(file.takeError());
      continue;
    }
    for (const TensorEntry &entry : (*file)->entries())
      ASSERT_LE(entry.offset + entry.bytes, contents.size());
  }
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  TestFolder folder;
  EXPECT_NE(messageOf(SafetensorsFile::open(folder.path())).find("it is no regular file"), std::string::npos);
  EXPECT_NE(messageOf(SafetensorsFile::open(folder.at("none"))).find("No such file"), std::string::npos);
}

TEST(DType, HasTorchsWords) {
  EXPECT_EQ(nameOf(DType::BFloat16), "bfloat16");
  EXPECT_EQ(bytesOf(DType::ComplexDouble), 16);
  EXPECT_EQ(nameOf(static_cast<DType>(200)), "unknown");
}

} // namespace cleave::plan
