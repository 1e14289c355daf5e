//===- RunFiles.cpp - Files of `cleave run` -------------------------------===//
#include "tools/cleave/run/RunFiles.h"
#include "codegen/plan/files/AtomicFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <optional>

namespace cleave {

using llvm::Error;
using plan::AtomicFile;

/// The path without links; for a file that does not exist yet, its folder's real path.
static llvm::SmallString<256> realPath(const std::string &file) {
  namespace fs = llvm::sys::fs;
  namespace path = llvm::sys::path;
  llvm::SmallString<256> found;
  if (!fs::real_path(file, found))
    return found;
  llvm::StringRef parent = path::parent_path(file);
  if (!fs::real_path(parent.empty() ? "." : parent, found))
    path::append(found, path::filename(file));
  return found;
}

bool isSameFile(const std::string &a, const std::string &b) {
  return !a.empty() && !b.empty() && realPath(a) == realPath(b);
}

/// A written file replaces an existing one, so it must not be one that the run reads. Files are compared by
/// identity, so links are seen through.
static Error checkWritten(llvm::StringRef option, const std::string &file, const RunFiles &files) {
  namespace fs = llvm::sys::fs;
  namespace path = llvm::sys::path;
  auto refused = [&](const llvm::Twine &what) {
    return llvm::createStringError(option + " " + file + ": is " + what + "; give another name");
  };
  if (fs::equivalent(file, files.inputs))
    return refused("the file of " + files.inputsOption);
  if (!fs::is_directory(files.plan) && fs::equivalent(file, files.plan))
    return refused("the model");
  std::error_code none;
  for (fs::directory_iterator entry(files.plan, none), end; !none && entry != end; entry.increment(none))
    if (fs::equivalent(file, entry->path()))
      return refused("a file of the plan " + files.plan);
  // Nor may a new file be inside the plan.
  llvm::SmallString<256> whole = realPath(file);
  for (llvm::StringRef parent = path::parent_path(whole); !parent.empty(); parent = path::parent_path(parent))
    if (fs::equivalent(parent, files.plan))
      return refused("in the plan " + files.plan);
  return Error::success();
}

Error checkWrittenFile(llvm::StringRef option, const std::string &file, const RunFiles &files) {
  if (file.empty())
    return Error::success();
  if (Error error = checkWritten(option, file, files))
    return error;
  // Creates a temporary file beside it, and removes that.
  return AtomicFile::create(file).takeError();
}

Error checkRunFiles(const RunFiles &files) {
  for (auto &[option, file] : {std::pair("--outputs", files.outputs), std::pair("--trace", files.trace)})
    if (Error error = checkWrittenFile(option, file, files))
      return error;
  if (!files.trace.empty() && realPath(files.trace) == realPath(files.outputs))
    return llvm::createStringError("--trace " + files.trace +
                                   ": is the file of --outputs; give another name");
  return Error::success();
}

Error writeRunFiles(const RunFiles &files, llvm::ArrayRef<runtime::NamedTensor> outputs,
                    llvm::function_ref<Error(AtomicFile &)> writeTrace) {
  std::vector<AtomicFile> written;
  auto write = [&](const std::string &file, llvm::function_ref<Error(AtomicFile &)> fill) -> Error {
    if (file.empty())
      return Error::success();
    auto created = AtomicFile::create(file);
    if (!created)
      return created.takeError();
    written.push_back(std::move(*created));
    return fill(written.back());
  };
  if (Error error = write(files.trace, writeTrace))
    return error;
  if (Error error =
          write(files.outputs, [&](AtomicFile &file) { return runtime::writeTensors(file, outputs); }))
    return error;
  // Only after all of them are written.
  for (AtomicFile &file : written)
    if (Error error = file.commit())
      return error;
  return Error::success();
}

} // namespace cleave
