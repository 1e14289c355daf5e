//===- OutputDirectory.cpp - A directory that appears whole or not at all -===//
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/files/OutputBroker.h"
#include "codegen/plan/files/PlanName.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

using EntryVisitor = llvm::function_ref<Error(StringRef path)>;

static Error forEachEntry(StringRef directory, EntryVisitor visit) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (Error failed = visit(it->path()))
      return failed;
  if (error)
    return llvm::createStringError("cannot read '" + directory + "': " + error.message());
  return Error::success();
}

/// True if `entry` is a regular file that a plan's folder may have.
static bool isOfPlan(StringRef entry) {
  llvm::sys::fs::file_status status;
  return isPlanFileName(llvm::sys::path::filename(entry)) &&
         !llvm::sys::fs::status(entry, status, /*Follow=*/false) &&
         status.type() == llvm::sys::fs::file_type::regular_file;
}

/// Fails unless `path` is free, an empty directory, or holds a plan and nothing else, since it will be
/// replaced and deleted.
/// \param name  its name in the error.
static Error checkReplaceable(StringRef path, StringRef name) {
  if (!llvm::sys::fs::exists(path))
    return Error::success();
  auto refuse = [&](const llvm::Twine &why) {
    return llvm::createStringError("will not replace '" + name + "': " + why +
                                   "; remove it, or give another name");
  };
  if (!llvm::sys::fs::is_directory(path))
    return refuse("it is no plan directory");
  bool empty = true, hasPlan = false;
  Error foreign = forEachEntry(path, [&](StringRef entry) -> Error {
    StringRef file = llvm::sys::path::filename(entry);
    empty = false;
    if (!isOfPlan(entry))
      return refuse("it holds '" + file + "', which is no part of a plan");
    if (file == kPlanFileName && !beginsLikePlan(entry))
      return refuse("its " + file + " is no plan");
    hasPlan |= file == kPlanFileName;
    return Error::success();
  });
  if (foreign)
    return foreign;
  return empty || hasPlan ? Error::success() : refuse("it holds no " + llvm::Twine(kPlanFileName));
}

/// Exchanges `temporary` and the directory `final`, whose old contents are then under `temporary`.
static int exchangeNames(const std::string &temporary, const std::string &final) {
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  // If the file system cannot exchange names, neither plan is there for a moment.
  std::string old = temporary + "-old";
  if (std::rename(final.c_str(), old.c_str()) != 0)
    return errno;
  if (std::rename(temporary.c_str(), final.c_str()) != 0) {
    int error = errno;
    std::rename(old.c_str(), final.c_str());
    return error;
  }
  return std::rename(old.c_str(), temporary.c_str()) == 0 ? 0 : errno;
}

OutputDirectory::OutputDirectory(std::string temporary, std::string final, bool isBrokered)
    : isBrokered(isBrokered), lock(isBrokered ? -1 : holdTemporary(temporary)),
      temporary(std::move(temporary)), final(std::move(final)) {}

OutputDirectory::OutputDirectory(OutputDirectory &&other) noexcept
    : isBrokered(other.isBrokered), lock(std::exchange(other.lock, -1)),
      temporary(std::exchange(other.temporary, {})), final(std::move(other.final)) {}

OutputDirectory::~OutputDirectory() {
  if (lock >= 0)
    close(lock);
  if (!temporary.empty() && !isBrokered)
    removeTemporary(temporary);
}

Expected<OutputDirectory> OutputDirectory::create(StringRef finalPath) {
  if (OutputBroker *broker = OutputBroker::of(finalPath)) {
    Expected<std::string> folder = broker->makePlanFolder();
    if (!folder)
      return folder.takeError();
    return OutputDirectory(std::move(*folder), finalPath.str(), /*isBrokered=*/true);
  }
  Expected<std::string> final = resolveOutputPath(finalPath);
  if (!final)
    return final.takeError();
  if (Error error = checkReplaceable(*final, *final))
    return error;
  removeAbandoned(llvm::sys::path::parent_path(*final));
  auto make = [&](const char *path) {
    struct stat old;
    const bool replaces = stat(final->c_str(), &old) == 0;
    // Opened to others when it is whole (keepPermissionsOf).
    return mkdir(path, replaces ? 0700 : 0777) == 0 ? 0 : errno;
  };
  Expected<std::string> temporary = makeTemporary(*final, make);
  if (!temporary)
    return temporary.takeError();
  return OutputDirectory(std::move(*temporary), std::move(*final), /*isBrokered=*/false);
}

/// Syncs a file of a plan; fails on any other file in the directory.
static Error syncFile(StringRef path) {
  if (!isOfPlan(path))
    return llvm::createStringError("'" + path + "' is no file of a plan; a plan has nothing else");
  return syncPath(path);
}

static void keepPermissions(StringRef path, const struct stat &old) {
  const int file = open(path.str().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0)
    return;
  keepPermissions(file, old);
  close(file);
}

/// Gives the directory `made` the permissions of the plan `old`, if there is one, and its files those that
/// all of the old files had.
static Error keepPermissionsOf(const std::string &old, StringRef made) {
  struct stat folder, file;
  if (stat(old.c_str(), &folder) != 0)
    return Error::success();
  if (stat((old + "/" + kPlanFileName).c_str(), &file) == 0) {
    auto restrict = [&](StringRef path) {
      struct stat other;
      if (stat(path.str().c_str(), &other) == 0)
        file.st_mode &= other.st_mode | S_IRWXU;
      return Error::success();
    };
    auto keep = [&](StringRef path) {
      keepPermissions(path, file);
      return Error::success();
    };
    if (Error error = forEachEntry(old, restrict))
      return error;
    if (Error error = forEachEntry(made, keep))
      return error;
  }
  keepPermissions(made, folder);
  return Error::success();
}

Error OutputDirectory::replace() {
  if (int error = exchangeNames(temporary, final))
    return cannotWrite(final, error);
  // Files may have been added since the check.
  if (Error error = checkReplaceable(temporary, final)) {
    if (exchangeNames(temporary, final) != 0)
      keepTemporary(std::exchange(temporary, {}));
    return error;
  }
  removeTemporary(std::exchange(temporary, {}));
  return Error::success();
}

Error OutputDirectory::commit() {
  if (isBrokered) {
    temporary.clear();
    return OutputBroker::of(final)->commitPlan();
  }
  if (Error error = forEachEntry(temporary, syncFile))
    return error;
  if (Error error = keepPermissionsOf(final, temporary))
    return error;
  if (Error error = syncPath(temporary))
    return error;
  if (Error error = checkReplaceable(final, final))
    return error;
  // rename replaces an empty directory by itself.
  if (std::rename(temporary.c_str(), final.c_str()) == 0)
    keepTemporary(std::exchange(temporary, {}));
  else if (errno != ENOTEMPTY && errno != EEXIST)
    return cannotWrite(final, errno);
  else if (Error error = replace())
    return error;
  return syncPath(llvm::sys::path::parent_path(final));
}

Error writeFileAtomically(StringRef path, StringRef contents) {
  Expected<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  if (Error error = file->write(llvm::arrayRefFromStringRef(contents)))
    return error;
  return file->commit();
}

} // namespace cleave::plan
