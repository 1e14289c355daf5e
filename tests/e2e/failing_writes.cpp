//===- failing_writes.cpp - A disk that is full at a chosen moment --------===//
//
// Preloaded (LD_PRELOAD), it counts what a program and its children do to files below FAILING_FOLDER that a
// full disk can refuse, in all processes together, and has the FAILING_AT-th of that fail with ENOSPC.
// FAILING_COUNTER is a file of sizeof(Counter) zeros that the processes share: how many there were, and which
// one failed.
//
//===----------------------------------------------------------------------===//
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {
struct Counter {
  std::atomic<uint64_t> count;
  char failed[24];
};

struct Settings {
  Settings() {
    const char *path = getenv("FAILING_COUNTER"), *number = getenv("FAILING_AT");
    folder = getenv("FAILING_FOLDER");
    if (!path || !folder)
      return;
    // Not by the functions below.
    auto reallyOpen = reinterpret_cast<int (*)(const char *, int, ...)>(dlsym(RTLD_NEXT, "open"));
    const int file = reallyOpen(path, O_RDWR | O_CLOEXEC);
    void *memory = mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
      abort();
    counter = static_cast<Counter *>(memory);
    failing = number ? strtoull(number, nullptr, 10) : 0;
  }
  Counter *counter = nullptr;
  const char *folder = nullptr;
  uint64_t failing = 0;
};
} // namespace

static Settings &settings() {
  static Settings read;
  return read;
}

template <typename Function> static Function *next(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

/// Counts `operation` on `path`; true where it is the one to fail.
static bool fails(const char *operation, const char *path) {
  Settings &own = settings();
  if (!own.counter)
    return false;
  char whole[2 * PATH_MAX];
  if (path[0] != '/' && getcwd(whole, PATH_MAX)) {
    strcat(whole, "/");
    path = strncat(whole, path, PATH_MAX - 2);
  }
  const size_t length = strlen(own.folder);
  if (strncmp(path, own.folder, length) != 0 || path[length] != '/')
    return false;
  if (own.counter->count.fetch_add(1) + 1 != own.failing)
    return false;
  snprintf(own.counter->failed, sizeof(own.counter->failed), "%s", operation);
  errno = ENOSPC;
  return true;
}

static bool fails(const char *operation, int file) {
  if (!settings().counter)
    return false;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0)
    return false;
  path[length] = '\0';
  // Sockets and pipes have names of another kind.
  return path[0] == '/' && fails(operation, path);
}

extern "C" {

ssize_t write(int file, const void *bytes, size_t size) {
  static auto *const really = next<ssize_t(int, const void *, size_t)>("write");
  return fails("write", file) ? -1 : really(file, bytes, size);
}

ssize_t writev(int file, const iovec *parts, int count) {
  static auto *const really = next<ssize_t(int, const iovec *, int)>("writev");
  return fails("write", file) ? -1 : really(file, parts, count);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
  static auto *const really = next<ssize_t(int, const void *, size_t, off_t)>("pwrite");
  return fails("write", file) ? -1 : really(file, bytes, size, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
  static auto *const really = next<ssize_t(int, const void *, size_t, off64_t)>("pwrite64");
  return fails("write", file) ? -1 : really(file, bytes, size, at);
}

int ftruncate(int file, off_t size) noexcept {
  static auto *const really = next<int(int, off_t)>("ftruncate");
  return fails("ftruncate", file) ? -1 : really(file, size);
}

int ftruncate64(int file, off64_t size) noexcept {
  static auto *const really = next<int(int, off64_t)>("ftruncate64");
  return fails("ftruncate", file) ? -1 : really(file, size);
}

int fsync(int file) {
  static auto *const really = next<int(int)>("fsync");
  return fails("fsync", file) ? -1 : really(file);
}

int fdatasync(int file) {
  static auto *const really = next<int(int)>("fdatasync");
  return fails("fsync", file) ? -1 : really(file);
}

int close(int file) {
  static auto *const really = next<int(int)>("close");
  const int mode = fcntl(file, F_GETFL);
  const bool hasFailed = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && fails("close", file);
  // What could not be written is told, and the file is closed all the same.
  const int result = really(file);
  if (hasFailed)
    errno = ENOSPC;
  return hasFailed ? -1 : result;
}

static int openWith(const char *name, const char *path, int flags, mode_t mode) {
  if ((flags & O_CREAT) && fails("open", path))
    return -1;
  return next<int(const char *, int, ...)>(name)(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return openWith("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return openWith("open64", path, flags, mode);
}

int mkdir(const char *path, mode_t mode) noexcept {
  static auto *const really = next<int(const char *, mode_t)>("mkdir");
  return fails("mkdir", path) ? -1 : really(path, mode);
}

int rename(const char *from, const char *to) noexcept {
  static auto *const really = next<int(const char *, const char *)>("rename");
  return fails("rename", to) ? -1 : really(from, to);
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to, unsigned flags) noexcept {
  static auto *const really = next<int(int, const char *, int, const char *, unsigned)>("renameat2");
  return fails("rename", to) ? -1 : really(fromFolder, from, toFolder, to, flags);
}
}
