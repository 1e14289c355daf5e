//===- TemporaryPath.h - Unfinished output that no exit leaves behind -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_TEMPORARYPATH_H
#define CLEAVE_CODEGEN_PLAN_FILES_TEMPORARYPATH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <sys/stat.h>

namespace cleave::plan {

/// Picks a free name beside `finalPath` and creates it with `make`, which returns 0 or an errno. From then
/// on, SIGINT, SIGTERM and SIGHUP remove the file or directory, unless the program ignores or handles them: a
/// handler that ends it calls removeTemporaries.
llvm::Expected<std::string> makeTemporary(llvm::StringRef finalPath,
                                          llvm::function_ref<int(const char *path)> make);

/// Removes from `folder` the files and directories that a killed process left behind: made by
/// `makeTemporary`, owned by this user, not locked (`holdTemporary`), and either their maker has ended or
/// nobody has modified them for 60 s. On a file system without locks, nothing is removed. A temporary of a
/// process in another container may be removed between its creation and its lock.
void removeAbandoned(llvm::StringRef folder);

/// Locks a file or directory until the descriptor is closed or its process ends; -1 if it cannot be locked.
int holdTemporary(llvm::StringRef path);

/// Keeps `path`: signals no longer remove it.
void keepTemporary(llvm::StringRef path);

/// Removes `path`; if it is a directory, with its contents.
void removeTemporary(llvm::StringRef path);

/// Removes all uncommitted outputs of this process, as signals do, and of its broker
/// (OutputBroker::finishOwn). For exits that run no destructors. From then on `makeTemporary` blocks forever,
/// so that no thread can create another output. Safe in signal handlers.
void removeTemporaries();

/// Error text: `cannot write 'path': No space left on device; …`.
llvm::Error cannotWrite(llvm::StringRef path, int errorNumber);

/// Creates a directory and its missing parents. The error is that of `cannotWrite`.
llvm::Error makeFolders(llvm::StringRef path);

/// The absolute path of a name, with symbolic links followed and no slash at its end. Fails on a dangling
/// link.
llvm::Expected<std::string> resolveOutputPath(llvm::StringRef path);

/// Gives a file or directory the group and permissions of the one that it replaces. Where the group cannot be
/// set, the new group gets no more than everybody had. Permissions stay as they are on a file system without
/// them.
void keepPermissions(int file, const struct stat &old);

/// Flushes a file or directory to its disk.
llvm::Error syncPath(llvm::StringRef path);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_TEMPORARYPATH_H
