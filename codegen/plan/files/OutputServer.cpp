//===- OutputServer.cpp - Writes the outputs of another process -----------===//
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/files/OutputProtocol.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <map>
#include <optional>
#include <unistd.h>

namespace cleave::plan {

using llvm::Error;
using llvm::StringRef;

namespace {
class Server {
public:
  explicit Server(const OutputPaths &paths) : paths(paths) {}
  OutputMessage answer(const OutputMessage &request);

private:
  bool mayWrite(StringRef path) const;
  OutputMessage makeFile(StringRef path);
  OutputMessage commitFile(int ticket);
  OutputMessage makePlan();
  OutputMessage commitPlan();
  OutputMessage makeIr();

  const OutputPaths &paths;
  std::optional<OutputDirectory> plan;
  std::map<int, AtomicFile> files;
  int tickets = 0;
};
} // namespace

/// Limit of open files; stops a process that requests files without end.
static constexpr size_t kMaxFiles = 8;

static OutputMessage failed(const llvm::Twine &why) { return {OutputMessage::Failed, -1, why.str()}; }

static OutputMessage resultOf(Error error) {
  return error ? failed(toString(std::move(error))) : OutputMessage();
}

/// A name such as `01-canonicalize.mlir`.
static bool isIrName(StringRef name) {
  return name.consume_back(".mlir") && name.size() > 3 && llvm::isDigit(name[0]) && llvm::isDigit(name[1]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '-'; });
}

bool Server::mayWrite(StringRef path) const {
  if (llvm::is_contained(paths.files, path))
    return true;
  llvm::SmallString<256> inIr(paths.ir);
  llvm::sys::path::append(inIr, llvm::sys::path::filename(path));
  return !paths.ir.empty() && path == inIr && isIrName(llvm::sys::path::filename(path));
}

OutputMessage Server::makeFile(StringRef path) {
  if (!mayWrite(path))
    return failed("cannot write '" + path + "': it is no output of this command");
  if (files.size() == kMaxFiles)
    return failed("cannot write '" + path + "': too many outputs are being written already");
  auto file = AtomicFile::create(path);
  if (!file)
    return resultOf(file.takeError());
  OutputMessage message;
  message.ticket = tickets++;
  message.descriptor = file->descriptor();
  files.emplace(message.ticket, std::move(*file));
  return message;
}

OutputMessage Server::commitFile(int ticket) {
  auto found = files.find(ticket);
  if (found == files.end())
    return failed("no such file is being written");
  OutputMessage result = resultOf(found->second.commit());
  files.erase(found);
  return result;
}

OutputMessage Server::makePlan() {
  if (!plan) {
    auto made = OutputDirectory::create(paths.plan);
    if (!made)
      return resultOf(made.takeError());
    plan.emplace(std::move(*made));
  }
  return {OutputMessage::Done, -1, plan->path()};
}

OutputMessage Server::commitPlan() {
  if (!plan || plan->path().empty())
    return failed("no plan is being written");
  return resultOf(plan->commit());
}

OutputMessage Server::makeIr() { return resultOf(makeFolders(paths.ir)); }

OutputMessage Server::answer(const OutputMessage &request) {
  switch (request.kind) {
  case OutputMessage::MakeFile:
    return makeFile(request.text);
  case OutputMessage::CommitFile:
    return commitFile(request.ticket);
  case OutputMessage::DropFile:
    files.erase(request.ticket);
    return {};
  case OutputMessage::MakePlan:
    return makePlan();
  case OutputMessage::CommitPlan:
    return commitPlan();
  case OutputMessage::MakeIr:
    return makeIr();
  }
  return failed("no such request");
}

void serveOutputs(int socket, const OutputPaths &paths) {
  Server server(paths);
  OutputMessage request;
  while (receiveMessage(socket, request)) {
    if (request.descriptor >= 0)
      close(request.descriptor);
    if (!sendMessage(socket, server.answer(request)))
      return;
  }
}

} // namespace cleave::plan
