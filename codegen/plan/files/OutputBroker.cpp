//===- OutputBroker.cpp - Creates the output files of another process -----===//
#include "codegen/plan/files/OutputBroker.h"
#include "codegen/plan/files/OutputProtocol.h"
#include "codegen/plan/files/TemporaryPath.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// `used`: the broker that creates this process' output files. `started`: the broker that this process has
/// started. Read by signal handlers.
static std::atomic<OutputBroker *> used = nullptr, started = nullptr;
/// In the broker process: its end of the connection.
static int served = -1;

struct OutputBroker::Answer : OutputMessage {
  Error error() const {
    return kind == Failed ? llvm::createStringError(llvm::inconvertibleErrorCode(), llvm::Twine(text))
                          : Error::success();
  }
};

Expected<std::unique_ptr<OutputBroker>> OutputBroker::create(OutputPaths paths) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return llvm::createStringError("cannot connect two processes: %s", std::strerror(errno));
  return std::unique_ptr<OutputBroker>(new OutputBroker(std::move(paths), ends[0], ends[1]));
}

static void closeOnce(std::atomic<int> &file) {
  if (const int open = file.exchange(-1); open >= 0)
    close(open);
}

OutputBroker::~OutputBroker() {
  finish();
  if (used == this)
    used = nullptr;
}

/// In the broker process: ends it once its parent has ended, though other processes may hold the connection.
/// \returns whether the parent is still alive.
static bool endWith(pid_t parent) {
  std::signal(SIGUSR1, [](int) { shutdown(served, SHUT_RDWR); });
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  return getppid() == parent;
}

Error OutputBroker::startProcess() {
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    return llvm::createStringError("cannot start a process: %s", std::strerror(errno));
  if (child == 0) {
    // A signal that ends the other process ends this one a moment later; a signal to the process group must
    // not come first.
    setsid();
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
      std::signal(signal, SIG_IGN);
    closeOnce(client);
    served = server;
    if (endWith(parent))
      serveOutputs(served, paths);
    _exit(EXIT_SUCCESS);
  }
  process = child;
  closeOnce(server);
  started = this;
  return Error::success();
}

void OutputBroker::use() {
  closeOnce(server);
  used = this;
}

/// 5 s: more than the process mostly takes to remove what is not finished.
static constexpr int kLooks = 5'000;
static constexpr timespec kLook = {0, 1'000'000};

/// Waits a minute for a child. Where it does not end for some seconds, it may have been stopped and is
/// continued; a sandboxed process may not do that, and leaves it. Safe in signal handlers.
static void awaitEnd(pid_t child) {
  for (int looks = 1; looks <= 12 * kLooks; ++looks) {
    const pid_t ended = waitpid(child, nullptr, WNOHANG);
    if (ended != 0 && !(ended < 0 && errno == EINTR))
      return;
    if (looks % kLooks == 0 && kill(child, SIGCONT) != 0)
      return;
    nanosleep(&kLook, nullptr);
  }
}

void OutputBroker::finish() {
  // Also for processes that have inherited this end, which nobody waits for.
  if (process > 0)
    shutdown(client, SHUT_RDWR);
  closeOnce(client);
  closeOnce(server);
  if (started == this)
    started = nullptr;
  if (const pid_t ending = process.exchange(0); ending > 0)
    awaitEnd(ending);
}

void OutputBroker::finishOwn() {
  if (OutputBroker *own = started)
    own->finish();
}

OutputBroker *OutputBroker::of(StringRef path) {
  OutputBroker *broker = used;
  if (!broker)
    return nullptr;
  // This process may create files in the plan's folder itself.
  const bool isOfPlan = !broker->planFolder.empty() && path.starts_with(broker->planFolder);
  return isOfPlan ? nullptr : broker;
}

OutputBroker::Answer OutputBroker::ask(char kind, int ticket, StringRef path) {
  // One request at a time.
  static std::mutex asking;
  std::lock_guard lock(asking);
  Answer answer;
  if (!sendMessage(client, {kind, ticket, path.str()}) || !receiveMessage(client, answer)) {
    answer.kind = OutputMessage::Failed;
    answer.text = "the process that writes the outputs has ended";
  }
  return answer;
}

Expected<OutputBroker::File> OutputBroker::makeFile(StringRef path) {
  Answer answer = ask(OutputMessage::MakeFile, -1, path);
  if (Error error = answer.error())
    return error;
  return File{answer.descriptor, answer.ticket};
}

Error OutputBroker::commitFile(int ticket) { return ask(OutputMessage::CommitFile, ticket).error(); }

void OutputBroker::dropFile(int ticket) { ask(OutputMessage::DropFile, ticket); }

Expected<std::string> OutputBroker::makePlanFolder() {
  Answer answer = ask(OutputMessage::MakePlan);
  if (Error error = answer.error())
    return error;
  return planFolder = answer.text;
}

Error OutputBroker::commitPlan() { return ask(OutputMessage::CommitPlan).error(); }

Error OutputBroker::makeIrFolder(StringRef path) {
  if (OutputBroker *broker = used)
    return broker->ask(OutputMessage::MakeIr).error();
  return makeFolders(path);
}

} // namespace cleave::plan
