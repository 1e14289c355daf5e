//===- InputFileTest.cpp --------------------------------------------------===//
#include "codegen/plan/files/InputFile.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace cleave::plan {

namespace {
class InputFiles : public testing::Test {
protected:
  std::string refusal(llvm::StringRef path) {
    auto file = InputFile::open(path);
    return file ? "" : describeInputError(file.getError());
  }
  TestFolder folder;
  const std::string path = folder.at("file");
};
} // namespace

static Digest digestOf(llvm::StringRef contents) { return checksum(llvm::arrayRefFromStringRef(contents)); }

TEST_F(InputFiles, AreHashedReadAndMapped) {
  // Longer than the pieces in which it is read.
  std::string contents(3'000'000, 'x');
  contents[2'500'000] = 'y';
  writeFile(path, contents);
  auto file = InputFile::open(path);
  ASSERT_TRUE(bool(file));
  EXPECT_EQ(file->bytes(), contents.size());
  EXPECT_EQ(*file->digest(), digestOf(contents));
  EXPECT_EQ((*file->read())->getBuffer(), contents);
  EXPECT_EQ((*file->map())->bytes(), llvm::arrayRefFromStringRef(contents));
}

TEST_F(InputFiles, StayWhatWasOpenedWhenAnotherTakesTheirName) {
  writeFile(path, "ours");
  auto file = InputFile::open(path);
  ASSERT_TRUE(bool(file));
  writeFile(folder.at("other"), "theirs");
  llvm::sys::fs::rename(folder.at("other"), path);
  EXPECT_EQ(*file->digest(), digestOf("ours"));
  EXPECT_EQ((*file->read())->getBuffer(), "ours");
  EXPECT_EQ((*file->map())->bytes(), llvm::arrayRefFromStringRef("ours"));
}

TEST_F(InputFiles, ThatGrowAreReadAsLongAsTheyWere) {
  writeFile(path, "ours");
  auto file = InputFile::open(path);
  std::error_code error;
  llvm::raw_fd_ostream(path, error, llvm::sys::fs::OF_Append) << " and more";
  EXPECT_EQ((*file->read())->getBuffer(), "ours");
  EXPECT_EQ(*file->digest(), digestOf("ours"));
}

TEST_F(InputFiles, ThatShrinkAreTold) {
  writeFile(path, "ours");
  auto file = InputFile::open(path);
  ASSERT_EQ(truncate(path.c_str(), 2), 0);
  EXPECT_EQ(describeInputError(file->read().getError()), "it became shorter while it was read");
  EXPECT_EQ(describeInputError(file->digest().getError()), "it became shorter while it was read");
}

// None of these is waited for, or read.
TEST_F(InputFiles, AreRegular) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_EQ(symlink("file", folder.at("link").c_str()), 0);
  sockaddr_un address{AF_UNIX, "socket"};
  const std::string socketPath = folder.at("socket");
  ASSERT_LT(socketPath.size(), sizeof(address.sun_path));
  socketPath.copy(address.sun_path, socketPath.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
  for (const std::string &each : {path, folder.at("link"), folder.path(), socketPath,
                                  std::string("/dev/zero"), std::string("/dev/tty")})
    EXPECT_EQ(refusal(each), "it is no regular file") << each;
  close(listener);
  EXPECT_EQ(refusal(folder.at("none")), "No such file or directory");
}

TEST_F(InputFiles, AreKnownByTheirAddressesWhileTheyAreMapped) {
  writeFile(path, std::string(10'000, 'x'));
  const uint8_t *data;
  {
    auto mapping = *InputFile::open(path)->map();
    data = mapping->data();
    auto again = *InputFile::open(path)->map();
    EXPECT_EQ(mappedFileAt(data + 9'999), path);
    EXPECT_EQ(mappedFileAt(again->data()), path);
    EXPECT_EQ(mappedFileAt(&folder), nullptr);
  }
  EXPECT_EQ(mappedFileAt(data), nullptr);
}

} // namespace cleave::plan
