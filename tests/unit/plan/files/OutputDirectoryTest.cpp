//===- OutputDirectoryTest.cpp --------------------------------------------===//
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/Support/FileSystem.h"
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace cleave::plan {

using Names = std::vector<std::string>;

/// What every plan.fb begins with.
static constexpr llvm::StringLiteral kOldPlan = "CLEAVE\r\nold";

/// Writes the first file of a plan into a directory that has been made for `path`.
static OutputDirectory startOutput(const std::string &path) {
  OutputDirectory output = llvm::cantFail(OutputDirectory::create(path));
  writeFile(output.path() + "/plan.fb", "new");
  return output;
}

TEST(OutputDirectory, AppearsOnCommit) {
  TestFolder folder;
  OutputDirectory output = startOutput(folder.at("a.plan"));
  EXPECT_FALSE(llvm::sys::fs::exists(folder.at("a.plan")));
  EXPECT_EQ(messageOf(output.commit()), "");
  EXPECT_EQ(folder.names(), Names{"a.plan"});
  EXPECT_EQ(readFile(folder.at("a.plan/plan.fb")), "new");
}

TEST(OutputDirectory, LeavesNothingWithoutCommit) {
  TestFolder folder;
  {
    OutputDirectory output = startOutput(folder.at("a.plan"));
    llvm::sys::fs::create_directory(output.path() + "/inner");
    writeFile(output.path() + "/inner/file", "x");
  }
  EXPECT_EQ(folder.names(), Names{});
}

TEST(OutputDirectory, ReplacesAnOlderPlanOnlyOnCommit) {
  TestFolder folder;
  llvm::sys::fs::create_directory(folder.at("a.plan"));
  writeFile(folder.at("a.plan/plan.fb"), kOldPlan);
  writeFile(folder.at("a.plan/rank-000.safetensors"), "old");
  OutputDirectory output = startOutput(folder.at("a.plan/"));
  EXPECT_EQ(readFile(folder.at("a.plan/plan.fb")), kOldPlan);
  EXPECT_EQ(messageOf(output.commit()), "");
  EXPECT_EQ(folder.names(), Names{"a.plan"});
  EXPECT_EQ(readFile(folder.at("a.plan/plan.fb")), "new");
  EXPECT_FALSE(llvm::sys::fs::exists(folder.at("a.plan/rank-000.safetensors")));
}

TEST(OutputDirectory, RefusesToReplaceOtherThings) {
  TestFolder folder;
  writeFile(folder.at("file"), "x");
  EXPECT_NE(messageOf(OutputDirectory::create(folder.at("file"))).find("it is no plan directory"),
            std::string::npos);
  llvm::sys::fs::create_directory(folder.at("home"));
  writeFile(folder.at("home/plan.fb"), kOldPlan);
  writeFile(folder.at("home/thesis.tex"), "x");
  EXPECT_EQ(messageOf(OutputDirectory::create(folder.at("home"))),
            "will not replace '" + folder.at("home") +
                "': it holds 'thesis.tex', which is no part of a plan; remove it, or give another name");
  EXPECT_EQ(folder.names(), (Names{"file", "home"}));
}

/// In place of libc's, for all of the program.
static std::function<void()> beforeExchange = [] {};
extern "C" int renameat2(int from, const char *old, int to, const char *fresh, unsigned flags) noexcept {
  std::exchange(beforeExchange, [] {})();
  return syscall(SYS_renameat2, from, old, to, fresh, flags);
}

/// What appears in the older plan while the new one takes its place is neither deleted nor replaced.
TEST(OutputDirectory, RefusesToReplaceWhatAppearsAtTheLastMoment) {
  TestFolder folder;
  llvm::sys::fs::create_directory(folder.at("a.plan"));
  writeFile(folder.at("a.plan/plan.fb"), kOldPlan);
  {
    OutputDirectory output = startOutput(folder.at("a.plan"));
    beforeExchange = [&] { writeFile(folder.at("a.plan/thesis.tex"), "x"); };
    EXPECT_EQ(messageOf(output.commit()),
              "will not replace '" + folder.at("a.plan") +
                  "': it holds 'thesis.tex', which is no part of a plan; remove it, or give another name");
  }
  EXPECT_EQ(folder.names(), Names{"a.plan"});
  EXPECT_EQ(readFile(folder.at("a.plan/thesis.tex")), "x");
  EXPECT_EQ(readFile(folder.at("a.plan/plan.fb")), kOldPlan);
}

/// What only has a plan's names is not deleted either.
TEST(OutputDirectory, RefusesToReplaceWhatOnlyLooksLikeAPlan) {
  namespace fs = llvm::sys::fs;
  TestFolder folder;
  const std::string taken = folder.at("taken"), plan = folder.at("taken/plan.fb");
  fs::create_directory(taken);
  auto message = [&] { return messageOf(OutputDirectory::create(taken)); };
  auto isNoPart = [](const std::string &name) {
    return "it holds '" + name + "', which is no part of a plan";
  };
  for (const char *text : {"", "CLEAVE", "a thesis, whose name is plan.fb"}) {
    writeFile(plan, text);
    EXPECT_NE(message().find("its plan.fb is no plan"), std::string::npos) << text;
  }
  fs::remove(plan);
  fs::create_directory(plan);
  writeFile(plan + "/thesis.tex", "x");
  EXPECT_NE(message().find(isNoPart("plan.fb")), std::string::npos);
  fs::remove_directories(plan);
  writeFile(folder.at("elsewhere"), kOldPlan);
  ASSERT_EQ(symlink(folder.at("elsewhere").c_str(), plan.c_str()), 0);
  EXPECT_NE(message().find(isNoPart("plan.fb")), std::string::npos);
  fs::remove(plan);
  writeFile(plan, kOldPlan);
  EXPECT_EQ(message(), "");
  for (const char *name : {"rank-notes.safetensors", "rank-000.safetensors"}) {
    fs::create_directory(taken + "/" + name);
    EXPECT_NE(message().find(isNoPart(name)), std::string::npos);
    fs::remove(taken + "/" + name);
  }
}

TEST(OutputDirectory, NamesAMissingFolder) {
  TestFolder folder;
  EXPECT_EQ(messageOf(OutputDirectory::create(folder.at("none/a.plan"))),
            "cannot write '" + folder.at("none/a.plan") +
                "': No such file or directory; make its folder first");
}

TEST(OutputDirectory, NamesAFolderThatIsNone) {
  TestFolder folder;
  writeFile(folder.at("file"), "x");
  EXPECT_EQ(messageOf(OutputDirectory::create(folder.at("file/a.plan"))),
            "cannot write '" + folder.at("file/a.plan") + "': Not a directory; write to another folder");
  EXPECT_EQ(messageOf(OutputDirectory::create("/proc/a.plan")),
            "cannot write '/proc/a.plan': No such file or directory; write to another folder");
}

TEST(OutputDirectory, LeavesLinksToNothing) {
  TestFolder folder;
  ASSERT_EQ(symlink("none", folder.at("dangling").c_str()), 0);
  ASSERT_EQ(symlink("loop", folder.at("loop").c_str()), 0);
  for (const char *name : {"dangling", "loop"}) {
    const std::string message =
        "cannot write '" + folder.at(name) + "': it is a link to nothing; remove it, or give another name";
    EXPECT_EQ(messageOf(OutputDirectory::create(folder.at(name))), message);
    EXPECT_EQ(messageOf(writeFileAtomically(folder.at(name), "x")), message);
    EXPECT_TRUE(llvm::sys::fs::is_symlink_file(folder.at(name)));
  }
  // Links to what is there are followed.
  ASSERT_EQ(symlink("target", folder.at("link").c_str()), 0);
  writeFile(folder.at("target"), "old");
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("link"), "new")), "");
  EXPECT_EQ(readFile(folder.at("target")), "new");
  EXPECT_TRUE(llvm::sys::fs::is_symlink_file(folder.at("link")));
}

/// Runs `work` in a child process and returns how that ended.
static int runInChild(llvm::function_ref<void()> work) {
  pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(OutputDirectory, IsRemovedBySignals) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    TestFolder folder;
    int status = runInChild([&] {
      OutputDirectory output = startOutput(folder.at("a.plan"));
      raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(folder.names(), Names{});
  }
}

// A signal stops one thread; here another one makes its file while the first removes a large folder.
TEST(OutputDirectory, LeavesNothingThatAnotherThreadWasMaking) {
  TestFolder folder;
  const int status = runInChild([&] {
    std::atomic<bool> isRegistered = false, isFilled = false;
    std::string large;
    auto makeLate = [&](const char *path) {
      isRegistered = true;
      while (!isFilled)
        std::this_thread::yield();
      // Until the removal begins, which had better wait for this.
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      for (int i = 0;
           llvm::sys::fs::exists(large + std::to_string(i)) && std::chrono::steady_clock::now() < end;)
        i = (i + 1) % 50;
      return close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600)) == 0 ? 0 : errno;
    };
    std::thread([&] { (void)makeTemporary(folder.at("late"), makeLate); }).detach();
    while (!isRegistered)
      std::this_thread::yield();
    OutputDirectory output = startOutput(folder.at("a.plan"));
    large = output.path() + "/";
    for (int i = 0; i < 5000; ++i)
      writeFile(large + std::to_string(i), "x");
    isFilled = true;
    raise(SIGINT);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  EXPECT_EQ(folder.names(), Names{});
}

static constexpr gid_t kNobody = 65534;

static mode_t modeOf(const std::string &path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 0777 : 0;
}

TEST(OutputDirectory, IsKeptByAHandlerThatGoesOn) {
  TestFolder folder;
  const int status = runInChild([&] {
    signal(SIGINT, [](int) {});
    OutputDirectory output = startOutput(folder.at("a.plan"));
    raise(SIGINT);
    _exit(messageOf(output.commit()).empty() ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.names(), Names{"a.plan"});
}

TEST(OutputDirectory, IsAsPrivateAsWhatItReplaces) {
  TestFolder folder;
  llvm::sys::fs::create_directory(folder.at("a.plan"));
  writeFile(folder.at("a.plan/plan.fb"), kOldPlan);
  writeFile(folder.at("a.plan/rank-000.safetensors"), "private");
  chmod(folder.at("a.plan/plan.fb").c_str(), 0644);
  chmod(folder.at("a.plan/rank-000.safetensors").c_str(), 0640);
  chmod(folder.at("a.plan").c_str(), 0750);
  const bool isRoot = geteuid() == 0;
  if (isRoot) {
    ASSERT_EQ(chown(folder.at("a.plan/plan.fb").c_str(), -1, kNobody), 0);
  }
  OutputDirectory output = startOutput(folder.at("a.plan"));
  // Nobody opens what is not whole.
  EXPECT_EQ(modeOf(output.path()), 0700u);
  EXPECT_EQ(messageOf(output.commit()), "");
  EXPECT_EQ(modeOf(folder.at("a.plan")), 0750u);
  EXPECT_EQ(modeOf(folder.at("a.plan/plan.fb")), 0640u);
  struct stat facts;
  ASSERT_EQ(stat(folder.at("a.plan/plan.fb").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_gid, isRoot ? kNobody : getegid());

  writeFile(folder.at("file"), "old");
  chmod(folder.at("file").c_str(), 0600);
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("file"), "new")), "");
  EXPECT_EQ(modeOf(folder.at("file")), 0600u);
}

TEST(OutputDirectory, RemovesWhatAKilledProcessLeft) {
  TestFolder folder;
  runInChild([&] {
    OutputDirectory output = startOutput(folder.at("a.plan"));
    raise(SIGKILL);
  });
  ASSERT_EQ(folder.names().size(), 1u);
  OutputDirectory output = startOutput(folder.at("a.plan"));
  EXPECT_EQ(folder.names().size(), 1u);
  EXPECT_EQ(messageOf(output.commit()), "");
  EXPECT_EQ(folder.names(), Names{"a.plan"});
}

TEST(OutputDirectory, LeavesWhatItCannotRemove) {
  TestFolder folder;
  const std::string deep = folder.at(".a.plan.partial-999999-0/1/2/3/4/5/6/7/8/9/10/11");
  llvm::sys::fs::create_directories(deep);
  OutputDirectory output = startOutput(folder.at("a.plan"));
  EXPECT_EQ(messageOf(output.commit()), "");
  EXPECT_TRUE(llvm::sys::fs::exists(deep));
}

TEST(OutputDirectory, LeavesAloneWhatOthersAreWriting) {
  TestFolder folder;
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  waitpid(child, nullptr, 0);
  const std::string dead = std::to_string(child);
  const std::string living = ".a.plan.partial-" + std::to_string(getppid()) + "-0";
  Names kept{".a.plan.partial-" + dead + "-0-old",
             ".a.plan.partial-" + dead + "-x",
             ".a.plan.partial-0-0",
             ".partial-" + dead + "-0",
             "a.plan.partial-" + dead + "-0",
             living};
  for (const std::string &name : kept)
    llvm::sys::fs::create_directory(folder.at(name));
  // A file and a directory that a process elsewhere holds, and a link, which nobody made.
  writeFile(folder.at(".a.plan.partial-" + dead + "-1"), "x");
  llvm::sys::fs::create_directory(folder.at(".a.plan.partial-" + dead + "-2"));
  int heldFile = holdTemporary(folder.at(".a.plan.partial-" + dead + "-1"));
  int heldDirectory = holdTemporary(folder.at(".a.plan.partial-" + dead + "-2"));
  ASSERT_GE(heldFile, 0);
  ASSERT_GE(heldDirectory, 0);
  ASSERT_EQ(symlink("..", folder.at(".a.plan.partial-" + dead + "-3").c_str()), 0);
  {
    OutputDirectory output = startOutput(folder.at("a.plan"));
  }
  kept.insert(kept.end(), {".a.plan.partial-" + dead + "-1", ".a.plan.partial-" + dead + "-2",
                           ".a.plan.partial-" + dead + "-3"});
  EXPECT_THAT(folder.names(), testing::UnorderedElementsAreArray(kept));
  close(heldFile);
  close(heldDirectory);
}

TEST(OutputDirectory, RemovesWhatNobodyHoldsThoughItsNumberLives) {
  TestFolder folder;
  const pid_t child = fork();
  if (child == 0)
    _exit(0);
  // Until it has ended; nobody has waited for it then.
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, child, &ended, WEXITED | WNOWAIT), 0);
  llvm::sys::fs::create_directory(folder.at(".a.plan.partial-" + std::to_string(child) + "-0"));
  // Of another process, long before the one that has its number now.
  const std::string old = folder.at(".b.plan.partial-" + std::to_string(getppid()) + "-0");
  llvm::sys::fs::create_directory(old);
  const timespec longAgo[2] = {};
  ASSERT_EQ(utimensat(AT_FDCWD, old.c_str(), longAgo, 0), 0);
  {
    OutputDirectory output = startOutput(folder.at("a.plan"));
  }
  EXPECT_EQ(folder.names(), Names{});
  waitpid(child, nullptr, 0);
}

/// Whatever was killed, and whatever is written next to the same folder.
TEST(OutputDirectory, RemovesWhatOtherOutputsLeft) {
  TestFolder folder;
  auto leave = [&] {
    runInChild([&] {
      OutputDirectory output = startOutput(folder.at("killed.plan"));
      (void)messageOf(writeFileAtomically(output.path() + "/rank-000.safetensors", "x"));
      auto file = AtomicFile::create(folder.at("killed.safetensors"));
      raise(SIGKILL);
    });
    EXPECT_EQ(folder.names().size(), 2u);
  };
  leave();
  {
    OutputDirectory output = startOutput(folder.at("a.plan"));
  }
  EXPECT_EQ(folder.names(), Names{});
  leave();
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("file"), "x")), "");
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(OutputDirectory, OutlivesSignalsThatAreIgnored) {
  TestFolder folder;
  int status = runInChild([&] {
    signal(SIGHUP, SIG_IGN);
    OutputDirectory output = startOutput(folder.at("a.plan"));
    raise(SIGHUP);
    _exit(messageOf(output.commit()).empty() ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.names(), Names{"a.plan"});
}

TEST(WriteFileAtomically, ReplacesAFileOrLeavesItAlone) {
  TestFolder folder;
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("file"), "old")), "");
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("file"), "new")), "");
  EXPECT_EQ(readFile(folder.at("file")), "new");
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(WriteFileAtomically, RefusesDevicesAndFolders) {
  TestFolder folder;
  for (const std::string &path : {folder.path(), std::string("/dev/null")})
    EXPECT_NE(messageOf(writeFileAtomically(path, "x")).find("no regular file"), std::string::npos);
}

// As a full disk, it shows in write().
TEST(WriteFileAtomically, ReportsALimitOnFileSizesAndLeavesNothing) {
  TestFolder folder;
  int status = runInChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string message = messageOf(writeFileAtomically(folder.at("file"), std::string(2000, 'x')));
    _exit(message.find("File too large; raise the limit on the size of files (ulimit -f)") ==
          std::string::npos);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.names(), Names{});
}

} // namespace cleave::plan
