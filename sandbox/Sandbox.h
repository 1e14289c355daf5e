//===- Sandbox.h - What this process may still do ---------------*- C++ -*-===//
#ifndef CLEAVE_SANDBOX_SANDBOX_H
#define CLEAVE_SANDBOX_SANDBOX_H

#include <string>
#include <vector>

namespace cleave::sandbox {

/// Files and folders that a sandboxed process may access.
struct FileAccess {
  /// Regular files that may be read. Names of anything else, or of nothing, are ignored.
  std::vector<std::string> files;
  /// Folders that may be read with all beneath them, and files of any kind.
  std::vector<std::string> folders;
  /// A folder that may be read, and in which files may be made, written and removed; empty: none.
  std::string writableFolder;
};

/// The limits that a process is under. The process cannot lift them.
struct Protection {
  /// The version of Landlock, which limits files; 0: it does not.
  int landlock = 0;
  /// Whether seccomp limits system calls.
  bool seccomp = false;
  /// Why one of them does not: `Landlock: Function not implemented`; else empty.
  std::string problem;

  bool isWhole() const { return landlock > 0 && seccomp; }
  /// `landlock 7, seccomp`, or `nothing`.
  std::string describe() const;
};

/// Restricts file access of the calling thread, and of threads that it starts later, to `allowed`. Restricts
/// system calls of all threads, existing ones too, to those that reach no other process (SystemCalls.cpp
/// lists the refused ones). Applies whatever the kernel supports. Call it once.
Protection enter(const FileAccess &allowed);

/// Refuses io_uring to this process, for libraries that would make a ring and still use it in the sandbox, as
/// libuv under libtorch's store does: without io_uring, they use other calls. Call it before the libraries
/// are used. A failure is ignored.
void blockIoUring();

/// Of this process: what `enter` returned, nothing before.
const Protection &current();

} // namespace cleave::sandbox

#endif // CLEAVE_SANDBOX_SANDBOX_H
