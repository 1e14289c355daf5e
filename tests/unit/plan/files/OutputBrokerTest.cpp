//===- OutputBrokerTest.cpp -----------------------------------------------===//
#include "codegen/plan/files/OutputBroker.h"
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/files/OutputProtocol.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <csignal>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::plan {

using Names = std::vector<std::string>;

/// With a process that makes these outputs.
static std::unique_ptr<OutputBroker> startBroker(OutputPaths paths) {
  auto broker = llvm::cantFail(OutputBroker::create(std::move(paths)));
  llvm::cantFail(broker->startProcess());
  broker->use();
  return broker;
}

TEST(OutputBroker, PutsAFileInPlace) {
  TestFolder folder;
  const std::string path = folder.at("trace.json");
  auto broker = startBroker({"", "", {path}});
  EXPECT_EQ(messageOf(writeFileAtomically(path, "new")), "");
  EXPECT_EQ(readFile(path), "new");
  EXPECT_EQ(folder.names(), Names{"trace.json"});
}

TEST(OutputBroker, RemovesWhatIsNotInPlace) {
  TestFolder folder;
  const OutputPaths paths{folder.at("new.plan"), "", {folder.at("trace.json")}};
  auto broker = startBroker(paths);
  {
    AtomicFile file = llvm::cantFail(AtomicFile::create(paths.files[0]));
    EXPECT_EQ(folder.names().size(), 1u);
  }
  EXPECT_EQ(folder.names(), Names{});
  // It is the other process that removes these.
  AtomicFile file = llvm::cantFail(AtomicFile::create(paths.files[0]));
  OutputDirectory plan = llvm::cantFail(OutputDirectory::create(paths.plan));
  writeFile(plan.path() + "/rank-000.safetensors", "x");
  EXPECT_EQ(folder.names().size(), 2u);
  broker->finish();
  EXPECT_EQ(folder.names(), Names{});
}

TEST(OutputBroker, PutsAPlanInPlace) {
  TestFolder folder;
  auto broker = startBroker({folder.at("new.plan"), "", {}});
  OutputDirectory plan = llvm::cantFail(OutputDirectory::create(folder.at("new.plan")));
  EXPECT_EQ(messageOf(writeFileAtomically(plan.path() + "/plan.fb", "new")), "");
  EXPECT_EQ(messageOf(plan.commit()), "");
  EXPECT_EQ(folder.names(), Names{"new.plan"});
  // Once.
  EXPECT_EQ(messageOf(broker->commitPlan()), "no plan is being written");
}

/// What a hijacked process may put there: a link would have who reads the plan read another file.
TEST(OutputBroker, RefusesPlansOfOtherThanFiles) {
  for (const char *what : {"link", "folder", "pipe"}) {
    TestFolder folder;
    auto broker = startBroker({folder.at("new.plan"), "", {}});
    OutputDirectory plan = llvm::cantFail(OutputDirectory::create(folder.at("new.plan")));
    const std::string path = plan.path() + "/" + what;
    ASSERT_EQ(what[0] == 'l'   ? symlink("/etc/passwd", path.c_str())
              : what[0] == 'f' ? mkdir(path.c_str(), 0700)
                               : mkfifo(path.c_str(), 0600),
              0);
    EXPECT_NE(messageOf(plan.commit()).find("is no file of a plan; a plan has nothing else"),
              std::string::npos);
    broker->finish();
    EXPECT_EQ(folder.names(), Names{});
  }
}

TEST(OutputBroker, RefusesFilesThatNoPlanHas) {
  for (const char *name :
       {"evil.so", "rank-0.safetensors", "rank-00x.safetensors", ".plan.fb", "plan.fb.old"}) {
    TestFolder folder;
    auto broker = startBroker({folder.at("new.plan"), "", {}});
    OutputDirectory plan = llvm::cantFail(OutputDirectory::create(folder.at("new.plan")));
    writeFile(plan.path() + "/plan.fb", "new");
    writeFile(plan.path() + "/" + name, "x");
    EXPECT_NE(messageOf(plan.commit()).find(name + std::string("' is no file of a plan")), std::string::npos);
    broker->finish();
    EXPECT_EQ(folder.names(), Names{});
  }
}

TEST(OutputBroker, WritesWhatTheCommandLineNamesAndNothingElse) {
  TestFolder folder;
  auto broker = startBroker({folder.at("new.plan"), folder.at("ir"), {folder.at("trace.json")}});
  EXPECT_EQ(messageOf(OutputBroker::makeIrFolder(folder.at("ir"))), "");
  for (const char *name :
       {"other", "trace.json/", "ir", "ir/x.mlir", "ir/../other.mlir", "ir/01-../x.mlir", "ir/.mlir",
        "ir/01-cse.mlir.old", "ir/inner/01-cse.mlir", "new.plan/plan.fb", "./trace.json"})
    EXPECT_NE(messageOf(broker->makeFile(folder.at(name))).find("it is no output of this command"),
              std::string::npos)
        << name;
  EXPECT_EQ(messageOf(writeFileAtomically(folder.at("ir/01-cse.mlir"), "new")), "");
  EXPECT_EQ(messageOf(broker->commitFile(7)), "no such file is being written");
  broker->dropFile(-1);
  std::vector<OutputBroker::File> open;
  llvm::Error error = llvm::Error::success();
  for (int i = 0; i < 9 && !error; ++i)
    if (auto file = broker->makeFile(folder.at("trace.json")))
      open.push_back(*file);
    else
      error = llvm::joinErrors(std::move(error), file.takeError());
  EXPECT_EQ(open.size(), 8u);
  EXPECT_NE(messageOf(std::move(error)).find("too many outputs"), std::string::npos);
  broker->finish();
  EXPECT_EQ(folder.names(), Names{"ir"});
}

TEST(OutputBroker, SaysWhatIsWrongWithAPlace) {
  TestFolder folder;
  auto broker = startBroker({folder.at("none/a.plan"), "", {folder.at("none/trace.json")}});
  for (const std::string &message : {messageOf(OutputDirectory::create(folder.at("none/a.plan"))),
                                     messageOf(AtomicFile::create(folder.at("none/trace.json")))})
    EXPECT_NE(message.find("make its folder first"), std::string::npos) << message;
}

/// Waits for a child process, and for no other that it has left behind.
static void awaitEnd(pid_t child) {
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, child, &ended, WEXITED), 0);
}

/// In a child process: outputs of which removal takes a while.
static void startManyOutputs(const TestFolder &folder, std::unique_ptr<OutputBroker> &broker) {
  broker = startBroker({folder.at("new.plan"), "", {}});
  const std::string plan = llvm::cantFail(broker->makePlanFolder());
  for (int i = 0; i < 5000; ++i)
    writeFile(plan + "/" + std::to_string(i), "x");
}

/// As crashes and deadlines end a command: without destructors, and with nothing left once it has ended.
TEST(OutputBroker, LeavesNothingWithoutDestructors) {
  TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<OutputBroker> broker;
    startManyOutputs(folder, broker);
    removeTemporaries();
    _exit(0);
  }
  awaitEnd(child);
  EXPECT_EQ(folder.names(), Names{});
}

/// Until `folder` is empty, or ten seconds have passed.
static void awaitEmpty(const TestFolder &folder) {
  for (int i = 0; i < 1000 && !folder.names().empty(); ++i)
    usleep(10'000);
}

/// Code that is trusted may leave a process behind, which has this end of the connection: nobody waits for
/// it.
TEST(OutputBroker, WaitsForNobodyWhoHasInheritedTheConnection) {
  for (const bool isKilled : {false, true}) {
    TestFolder folder;
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::unique_ptr<OutputBroker> broker;
      startManyOutputs(folder, broker);
      if (fork() == 0) {
        char byte;
        close(alive[1]);
        _exit(int(read(alive[0], &byte, 1)));
      }
      if (isKilled)
        raise(SIGKILL);
      broker->finish();
      _exit(0);
    }
    awaitEnd(child);
    if (isKilled)
      awaitEmpty(folder);
    EXPECT_EQ(folder.names(), Names{});
    close(alive[0]);
    close(alive[1]);
  }
}

/// A message brings one descriptor at most, whatever a hijacked process sends.
TEST(OutputBroker, KeepsNoDescriptorsThatNobodyAskedFor) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const int sent[] = {ends[0], ends[0]};
  char text[] = "a message", control[CMSG_SPACE(sizeof(sent))] = {};
  iovec part{text, sizeof(text)};
  msghdr whole{};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  whole.msg_control = control;
  whole.msg_controllen = sizeof(control);
  cmsghdr *header = CMSG_FIRSTHDR(&whole);
  *header = {CMSG_LEN(sizeof(sent)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), sent, sizeof(sent));
  ASSERT_GT(sendmsg(ends[0], &whole, 0), 0);
  OutputMessage message;
  ASSERT_TRUE(receiveMessage(ends[1], message));
  EXPECT_GE(message.descriptor, 0);
  // The lowest number that is free is the next.
  const int next = dup(ends[0]);
  EXPECT_EQ(next, message.descriptor + 1);
  for (int file : {next, message.descriptor, ends[0], ends[1]})
    close(file);
}

/// It is killed in the end, so that nobody waits for it for ever.
TEST(OutputBroker, EndsThoughItWasStopped) {
  TestFolder folder;
  auto broker = startBroker({"", "", {folder.at("trace.json")}});
  pid_t child = 0;
  ASSERT_TRUE(std::ifstream("/proc/self/task/" + std::to_string(gettid()) + "/children") >> child);
  kill(child, SIGSTOP);
  broker->finish();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

/// A launcher that stops a command signals all of its group, and the files are to be removed after that.
TEST(OutputBroker, IsNotOfTheGroup) {
  TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    auto broker = startBroker({"", "", {folder.at("trace.json")}});
    AtomicFile file = llvm::cantFail(AtomicFile::create(folder.at("trace.json")));
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    _exit(messageOf(file.commit()).empty() ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.names(), Names{"trace.json"});
}

} // namespace cleave::plan
