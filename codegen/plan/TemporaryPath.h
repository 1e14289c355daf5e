//===- TemporaryPath.h - Unfinished output that no exit leaves behind -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_TEMPORARYPATH_H
#define CLEAVE_CODEGEN_PLAN_TEMPORARYPATH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave::plan {

/// Picks a free name beside `finalPath` and makes a file or directory of it with `make`, which returns 0 or
/// the errno. SIGINT, SIGTERM and SIGHUP remove it from then on.
llvm::Expected<std::string> makeTemporary(llvm::StringRef finalPath,
                                          llvm::function_ref<int(const char *path)> make);

/// Removes from `folder` the files and directories that a killed process left behind: made by
/// `makeTemporary`, owned by this user, not locked (`holdTemporary`), and either their maker has ended or
/// nobody has modified them for 60 s. Where the file system has no locks, all stay. Between making one and
/// locking it, that of a process in another container may be taken for one of these.
void removeAbandoned(llvm::StringRef folder);

/// Locks a file or directory until the descriptor is closed or its process ends; -1 where that cannot be
/// done.
int holdTemporary(llvm::StringRef path);

/// Signals leave `path` alone again; it is kept.
void keepTemporary(llvm::StringRef path);

/// Removes `path`, with all that is in it if it is a directory.
void removeTemporary(llvm::StringRef path);

/// Removes whatever is unfinished in this process, as signals do, and in the one that makes its outputs
/// (OutputBroker::finishOwn). For all ways out without destructors. Safe in signal handlers.
void removeTemporaries();

/// `cannot write 'path': No space left on device; …`.
llvm::Error cannotWrite(llvm::StringRef path, int errorNumber);

/// Makes the directory `path` and its missing parents. The error is that of `cannotWrite`.
llvm::Error makeFolders(llvm::StringRef path);

/// The path that a name stands for: absolute, symbolic links followed, without a slash at its end.
/// Fails where it is a link whose target is not there.
llvm::Expected<std::string> resolveOutputPath(llvm::StringRef path);

/// Flushes a file or directory to its disk.
llvm::Error syncPath(llvm::StringRef path);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_TEMPORARYPATH_H
