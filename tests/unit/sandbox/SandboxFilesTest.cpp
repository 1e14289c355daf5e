//===- SandboxFilesTest.cpp -----------------------------------------------===//
#include "tests/unit/sandbox/InSandbox.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cleave::sandbox {

namespace {
/// A folder of a user: a model that is given, a secret that is not, a plan of somebody else, and one that is
/// being made.
class SandboxFiles : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/sandbox-XXXXXX";
    folder = mkdtemp(name);
    for (const char *file :
         {"model.pt", "secret", "other.plan/plan.fb", ".new.plan.partial-1-0/rank-000.safetensors"}) {
      std::filesystem::create_directories(std::filesystem::path(at(file)).parent_path());
      std::ofstream(at(file)) << file;
    }
    allowed = {{at("model.pt"), at("not there")}, {}, at(".new.plan.partial-1-0")};
  }
  void TearDown() override {
    // Nothing but the new plan may have changed.
    for (const char *file : {"model.pt", "secret", "other.plan/plan.fb"}) {
      std::string text;
      std::getline(std::ifstream(at(file)), text);
      EXPECT_EQ(text, file);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 4);
    std::filesystem::remove_all(folder);
  }

  std::string at(const std::string &name) const { return folder + "/" + name; }
  std::string partial(const std::string &name) const { return at(".new.plan.partial-1-0/" + name); }
  /// What is wrong with opening it, 0: nothing.
  int opening(const std::string &path, int flags) const {
    return inSandbox(allowed, [&] { return open(path.c_str(), flags, 0600) < 0 ? errno : 0; });
  }
  int doing(const std::function<int()> &call) const {
    return inSandbox(allowed, [&] { return call() < 0 ? errno : 0; });
  }

  std::string folder;
  FileAccess allowed;
};
} // namespace

TEST_F(SandboxFiles, ReadsWhatIsGiven) {
  EXPECT_EQ(opening(at("model.pt"), O_RDONLY), 0);
  EXPECT_EQ(opening(at("secret"), O_RDONLY), EACCES);
  EXPECT_EQ(opening("/etc/passwd", O_RDONLY), EACCES);
  EXPECT_EQ(opening(folder, O_RDONLY | O_DIRECTORY), EACCES);
  EXPECT_EQ(opening("/proc/self/environ", O_RDONLY), EACCES);
  EXPECT_EQ(opening("/proc/self/mem", O_RDWR), EACCES);
  EXPECT_EQ(opening("/dev/tty", O_RDWR), EACCES);
}

TEST_F(SandboxFiles, ReadsNoFolderInPlaceOfAFile) {
  ASSERT_EQ(symlink(at("other.plan").c_str(), partial("inputs").c_str()), 0);
  allowed.files = {partial("inputs")};
  EXPECT_EQ(opening(at("other.plan/plan.fb"), O_RDONLY), EACCES);
  EXPECT_EQ(opening(partial("inputs"), O_RDONLY | O_DIRECTORY), EACCES);
  allowed.folders = {at("other.plan")};
  EXPECT_EQ(opening(at("other.plan/plan.fb"), O_RDONLY), 0);
  EXPECT_EQ(opening(at("secret"), O_RDONLY), EACCES);
}

TEST_F(SandboxFiles, WritesNothingElse) {
  EXPECT_EQ(opening(at("model.pt"), O_WRONLY), EACCES);
  EXPECT_EQ(opening(at("model.pt"), O_RDWR), EACCES);
  EXPECT_EQ(opening(at("model.pt"), O_RDONLY | O_TRUNC), EPERM);
  EXPECT_EQ(opening(at("new"), O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(opening(at("other.plan/plan.fb"), O_WRONLY), EACCES);
  EXPECT_EQ(opening("/tmp/cleave-sandbox-test", O_WRONLY | O_CREAT), EACCES);
}

TEST_F(SandboxFiles, WritesTheNewPlan) {
  EXPECT_EQ(opening(partial("rank-001.safetensors"), O_RDWR | O_CREAT | O_EXCL), 0);
  EXPECT_EQ(
      doing([&] { return rename(partial("rank-001.safetensors").c_str(), partial("plan.fb").c_str()); }), 0);
  EXPECT_EQ(doing([&] { return unlink(partial("plan.fb").c_str()); }), 0);
}

TEST_F(SandboxFiles, PutsNothingInPlace) {
  const std::string file = partial("rank-000.safetensors");
  EXPECT_EQ(doing([&] { return rename(file.c_str(), at("model.pt").c_str()); }), EACCES);
  EXPECT_EQ(doing([&] { return rename(file.c_str(), at("other.plan/plan.fb").c_str()); }), EACCES);
  EXPECT_EQ(doing([&] { return rename(at("secret").c_str(), partial("plan.fb").c_str()); }), EACCES);
  EXPECT_NE(doing([&] { return rename(partial("").c_str(), at("new.plan").c_str()); }), 0);
  EXPECT_NE(doing([&] { return rename(at("other.plan").c_str(), at("mine.plan").c_str()); }), 0);
  EXPECT_EQ(doing([&] { return unlink(at("secret").c_str()); }), EACCES);
  EXPECT_EQ(doing([&] { return mkdir(at("new").c_str(), 0700); }), EACCES);
}

TEST_F(SandboxFiles, LeavesThroughNoLink) {
  ASSERT_EQ(symlink(at("secret").c_str(), partial("out").c_str()), 0);
  ASSERT_EQ(symlink(at("").c_str(), partial("up").c_str()), 0);
  EXPECT_EQ(opening(partial("out"), O_RDONLY), EACCES);
  EXPECT_EQ(opening(partial("out"), O_WRONLY), EACCES);
  EXPECT_EQ(opening(partial("up/secret"), O_RDONLY), EACCES);
  EXPECT_EQ(opening(partial("../secret"), O_RDONLY), EACCES);
  EXPECT_EQ(doing([&] { return symlink("/etc/passwd", partial("link").c_str()); }), EPERM);
  EXPECT_EQ(doing([&] { return link(at("secret").c_str(), partial("link").c_str()); }), EPERM);
}

/// As a user with few rights and as root alike: Landlock asks for neither.
TEST_F(SandboxFiles, HoldsWithoutRoot) {
  if (geteuid() != 0)
    GTEST_SKIP() << "NOT TESTED: dropping root takes root";
  chmod(folder.c_str(), 0777);
  chmod(at(".new.plan.partial-1-0").c_str(), 0777);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0 || !enter(allowed).isWhole())
      _exit(1);
    const bool reads = open(at("model.pt").c_str(), O_RDONLY) >= 0;
    const bool isRefused = open(at("secret").c_str(), O_RDONLY) < 0 && errno == EACCES;
    const bool writes = open(partial("plan.fb").c_str(), O_WRONLY | O_CREAT, 0600) >= 0;
    _exit(reads && isRefused && writes ? 0 : 2);
  }
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Sandbox, SaysWhatProtects) {
  EXPECT_EQ((Protection{7, true, ""}.describe()), "landlock 7, seccomp");
  EXPECT_EQ((Protection{0, true, "Landlock: no"}.describe()), "seccomp");
  EXPECT_EQ((Protection{}.describe()), "nothing");
  EXPECT_FALSE((Protection{0, true, "Landlock: no"}.isWhole()));
}

} // namespace cleave::sandbox
