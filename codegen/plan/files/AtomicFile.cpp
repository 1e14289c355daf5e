//===- AtomicFile.cpp - A file that appears whole or not at all -----------===//
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/files/OutputBroker.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

AtomicFile::AtomicFile(int file, std::string temporary, std::string final, int ticket)
    : file(file), ticket(ticket), temporary(std::move(temporary)), final(std::move(final)) {}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : file(std::exchange(other.file, -1)), ticket(std::exchange(other.ticket, -1)),
      temporary(std::exchange(other.temporary, {})), final(std::move(other.final)) {}

AtomicFile::~AtomicFile() {
  if (file >= 0)
    close(file);
  if (!temporary.empty())
    removeTemporary(temporary);
  if (OutputBroker *broker = ticket < 0 ? nullptr : OutputBroker::of(final))
    broker->dropFile(ticket);
}

Expected<AtomicFile> AtomicFile::create(StringRef finalPath) {
  if (OutputBroker *broker = OutputBroker::of(finalPath)) {
    Expected<OutputBroker::File> made = broker->makeFile(finalPath);
    if (!made)
      return made.takeError();
    return AtomicFile(made->descriptor, "", finalPath.str(), made->ticket);
  }
  Expected<std::string> final = resolveOutputPath(finalPath);
  if (!final)
    return final.takeError();
  if (llvm::sys::fs::exists(*final) && !llvm::sys::fs::is_regular_file(*final))
    return llvm::createStringError("cannot write '" + finalPath +
                                   "': it is there and no regular file; give another name");
  removeAbandoned(llvm::sys::path::parent_path(*final));
  int file = -1;
  auto open = [&](const char *path) {
    struct stat old;
    const bool replaces = stat(final->c_str(), &old) == 0;
    file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
    if (file < 0)
      return errno;
    // Tells other processes, also in other containers, that this one is alive; some file systems have no
    // locks.
    (void)flock(file, LOCK_EX | LOCK_NB);
    if (replaces)
      keepPermissions(file, old);
    return 0;
  };
  Expected<std::string> temporary = makeTemporary(*final, open);
  if (!temporary)
    return temporary.takeError();
  return AtomicFile(file, std::move(*temporary), std::move(*final));
}

Error AtomicFile::write(llvm::ArrayRef<uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return cannotWrite(final, errno);
    bytes = bytes.drop_front(written);
  }
  return Error::success();
}

Error AtomicFile::commit() {
  if (fsync(file) != 0)
    return cannotWrite(final, errno);
  if (close(std::exchange(file, -1)) != 0)
    return cannotWrite(final, errno);
  if (ticket >= 0)
    return OutputBroker::of(final)->commitFile(std::exchange(ticket, -1));
  if (std::rename(temporary.c_str(), final.c_str()) != 0)
    return cannotWrite(final, errno);
  keepTemporary(std::exchange(temporary, {}));
  return syncPath(llvm::sys::path::parent_path(final));
}

} // namespace cleave::plan
