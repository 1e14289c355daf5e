//===- OutputBroker.cpp - Another process that writes this one's outputs --===//
#include "codegen/plan/OutputBroker.h"
#include "codegen/plan/OutputWire.h"
#include "llvm/Support/FileSystem.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The one that this process' outputs are made by, and the one that it has started.
static OutputBroker *used = nullptr, *started = nullptr;

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

static void closeOnce(int &file) {
  if (file >= 0)
    close(std::exchange(file, -1));
}

OutputBroker::~OutputBroker() {
  finish();
  if (used == this)
    used = nullptr;
}

Error OutputBroker::serve() {
  process = fork();
  if (process < 0)
    return llvm::createStringError("cannot start a process: %s", std::strerror(errno));
  if (process == 0) {
    // What ends the other process ends this one, a moment later; a signal to all of them must not come first.
    setsid();
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
      std::signal(signal, SIG_IGN);
    closeOnce(client);
    serveOutputs(server, paths);
    _exit(EXIT_SUCCESS);
  }
  closeOnce(server);
  started = this;
  return Error::success();
}

void OutputBroker::use() {
  closeOnce(server);
  used = this;
}

void OutputBroker::finish() {
  closeOnce(client);
  closeOnce(server);
  if (started == this)
    started = nullptr;
  if (const pid_t ending = std::exchange(process, 0); ending > 0)
    while (waitpid(ending, nullptr, 0) < 0 && errno == EINTR)
      ;
}

void OutputBroker::finishOwn() {
  if (started)
    started->finish();
}

OutputBroker *OutputBroker::of(StringRef path) {
  if (!used)
    return nullptr;
  // Files of the plan are made in its folder, in which this process may.
  const bool isOfPlan = !used->planFolder.empty() && path.starts_with(used->planFolder);
  return isOfPlan ? nullptr : used;
}

OutputBroker::Answer OutputBroker::ask(char kind, int ticket, StringRef path) {
  // One question at a time.
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
  if (used)
    return used->ask(OutputMessage::MakeIr).error();
  return llvm::errorCodeToError(llvm::sys::fs::create_directories(path));
}

} // namespace cleave::plan
