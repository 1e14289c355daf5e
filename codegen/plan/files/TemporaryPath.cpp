//===- TemporaryPath.cpp - Unfinished output that no exit leaves behind ---===//
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/files/OutputBroker.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cleave::plan {

using llvm::StringRef;

//===- Removal by signals -------------------------------------------------===//
// A signal handler reads these slots: no locks, no allocation.

namespace {
enum SlotState { Free, Filling, Armed };
struct Slot {
  std::atomic<int> state{Free};
  char path[PATH_MAX];
};
/// Entries of the kernel's getdents64; libc does not declare them.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
};
} // namespace

static constexpr size_t kSlots = 32;
static Slot slots[kSlots];
static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
static constexpr int kMaxDepth = 8, kMaxRounds = 100;

/// Removes a file, or a directory with what it may remove in it. Safe in signal handlers, unlike opendir.
/// \returns how many names it has removed.
static unsigned removeOnce(int parent, const char *name, int depth) {
  if (unlinkat(parent, name, 0) == 0)
    return 1;
  const int directory =
      depth > kMaxDepth ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0)
    return 0;
  unsigned removed = 0;
  alignas(DirectoryEntry) char buffer[4096];
  long filled;
  while ((filled = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0)
    for (long at = 0; at < filled;) {
      auto *entry = reinterpret_cast<DirectoryEntry *>(buffer + at);
      at += entry->length;
      if (std::strcmp(entry->name, ".") != 0 && std::strcmp(entry->name, "..") != 0)
        removed += removeOnce(directory, entry->name, depth + 1);
    }
  close(directory);
  return removed + (unlinkat(parent, name, AT_REMOVEDIR) == 0);
}

/// As removeOnce, again while that removes something: other threads may still add files.
static void removeTree(const char *path) {
  for (int rounds = 0; rounds < kMaxRounds && removeOnce(AT_FDCWD, path, 0) > 0; ++rounds)
    ;
}

/// Threads that create a temporary at this moment. No thread begins to once `isClosed`.
static std::atomic<int> making{0};
static std::atomic<bool> isClosed{false};
static thread_local int makingHere = 0;

namespace {
/// While it lives, this thread creates a temporary. Never returns when the process is about to end.
struct Making {
  Making() {
    // In this order: a signal in between waits in vain for a moment, and misses nothing.
    ++making;
    ++makingHere;
    if (isClosed) {
      --making;
      for (;;)
        pause();
    }
  }
  ~Making() {
    --makingHere;
    --making;
  }
};
} // namespace

/// Waits for what other threads create: a signal stops one thread alone. A file system that hangs is not
/// waited for.
static void closeMaking() {
  constexpr timespec kLook = {0, 1'000'000};
  isClosed = true;
  for (int looks = 0; looks < 1000 && making > makingHere; ++looks)
    nanosleep(&kLook, nullptr);
}

void removeTemporaries() {
  closeMaking();
  for (Slot &slot : slots)
    if (slot.state.load() == Armed)
      removeTree(slot.path);
  OutputBroker::finishOwn();
}

static void removeAllAndDie(int signal) {
  removeTemporaries();
  std::signal(signal, SIG_DFL);
  raise(signal); // Delivered when this handler returns.
}

static void installHandlers() {
  for (int signal : kSignals) {
    struct sigaction action;
    sigaction(signal, nullptr, &action);
    // nohup wants the work to go on, and so may a handler of the program's own.
    if (action.sa_handler == SIG_DFL)
      std::signal(signal, removeAllAndDie);
  }
}

static bool arm(StringRef path) {
  static std::once_flag installed;
  std::call_once(installed, installHandlers);
  for (Slot &slot : slots) {
    int expected = Free;
    if (path.size() >= sizeof(slot.path) || !slot.state.compare_exchange_strong(expected, Filling))
      continue;
    std::memcpy(slot.path, path.data(), path.size());
    slot.path[path.size()] = '\0';
    slot.state.store(Armed);
    return true;
  }
  return false;
}

void keepTemporary(StringRef path) {
  for (Slot &slot : slots)
    if (slot.state.load() == Armed && path == slot.path) {
      slot.state.store(Free);
      return;
    }
}

//===- Paths --------------------------------------------------------------===//

/// Infix between a name and the process id and number.
static constexpr llvm::StringLiteral kInfix = ".partial-";

int holdTemporary(StringRef path) {
  int held = open(path.str().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (held >= 0 && flock(held, LOCK_EX | LOCK_NB) != 0) {
    close(held);
    return -1;
  }
  return held;
}

/// The process in `.NAME.partial-PROCESS-NUMBER`; 0 for other names.
static pid_t makerOf(StringRef name) {
  pid_t process;
  unsigned number;
  auto [finalName, numbers] = name.rsplit(kInfix);
  if (finalName.size() < 2 || finalName.front() != '.' || numbers.consumeInteger(10, process) ||
      !numbers.consume_front("-") || numbers.getAsInteger(10, number) || process < 0)
    return 0;
  return process;
}

/// True also for a zombie.
static bool hasEnded(pid_t process) {
  if (kill(process, 0) != 0)
    return errno == ESRCH;
  auto status = llvm::MemoryBuffer::getFileAsStream("/proc/" + llvm::Twine(process) + "/stat");
  return status && (*status)->getBuffer().rsplit(") ").second.starts_with("Z");
}

/// A live process locks its temporaries within this time; later, the process id belongs to another one.
static constexpr time_t kSecondsToLock = 60;

static bool isAbandoned(pid_t maker, int held) {
  struct stat facts;
  return fstat(held, &facts) == 0 && facts.st_uid == geteuid() &&
         (S_ISDIR(facts.st_mode) || S_ISREG(facts.st_mode)) &&
         (hasEnded(maker) || time(nullptr) - facts.st_mtime > kSecondsToLock);
}

void removeAbandoned(StringRef folder) {
  // A temporary folder is removed as a whole.
  if (llvm::sys::path::filename(folder).contains(kInfix))
    return;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error, /*follow_symlinks=*/false), end;
       !error && it != end; it.increment(error)) {
    const pid_t maker = makerOf(llvm::sys::path::filename(it->path()));
    const int held = maker ? holdTemporary(it->path()) : -1;
    if (held < 0)
      continue;
    if (isAbandoned(maker, held))
      removeTree(it->path().c_str());
    close(held);
  }
}

llvm::Expected<std::string> makeTemporary(StringRef finalPath, llvm::function_ref<int(const char *)> make) {
  static std::atomic<unsigned> counter{0};
  while (true) {
    llvm::SmallString<256> path(llvm::sys::path::parent_path(finalPath));
    llvm::sys::path::append(path, "." + llvm::sys::path::filename(finalPath) + kInfix +
                                      llvm::Twine(getpid()) + "-" + llvm::Twine(counter++));
    // Registered before it exists; a signal in between finds nothing to remove.
    if (!arm(path))
      return llvm::createStringError("cannot write '" + finalPath + "': its path is too long, or " +
                                     llvm::Twine(kSlots) + " outputs are being written already");
    Making now;
    int error = make(path.c_str());
    if (error == 0)
      return path.str().str();
    keepTemporary(path);
    if (error != EEXIST)
      return cannotWrite(finalPath, error);
  }
}

void removeTemporary(StringRef path) {
  removeTree(path.str().c_str());
  keepTemporary(path);
}

llvm::Error cannotWrite(StringRef path, int errorNumber) {
  StringRef remedy;
  if (errorNumber == ENOSPC || errorNumber == EDQUOT)
    remedy = "; free some space, or write to another disk";
  else if (errorNumber == EFBIG)
    remedy = "; raise the limit on the size of files (ulimit -f), or write to another disk";
  else if (errorNumber == ENAMETOOLONG)
    remedy = "; give a shorter name";
  else if (errorNumber == ENOENT && !llvm::sys::fs::exists(llvm::sys::path::parent_path(path)))
    remedy = "; make its folder first";
  else if (errorNumber == ENOENT || errorNumber == ENOTDIR || errorNumber == EACCES || errorNumber == EPERM ||
           errorNumber == EROFS)
    remedy = "; write to another folder";
  return llvm::createStringError("cannot write '" + path + "': " + std::strerror(errorNumber) + remedy);
}

llvm::Error makeFolders(StringRef path) {
  std::error_code error = llvm::sys::fs::create_directories(path);
  return error ? cannotWrite(path, error.value()) : llvm::Error::success();
}

llvm::Expected<std::string> resolveOutputPath(StringRef path) {
  llvm::SmallString<256> resolved;
  if (!path.empty() && !llvm::sys::fs::real_path(path, resolved))
    return resolved.str().str();
  resolved = path.rtrim('/');
  // Renaming onto a link would replace the link itself.
  if (llvm::sys::fs::is_symlink_file(resolved))
    return llvm::createStringError("cannot write '" + path +
                                   "': it is a link to nothing; remove it, or give another name");
  StringRef name = llvm::sys::path::filename(resolved);
  if (name.empty() || name == "." || name == "..")
    return llvm::createStringError("cannot write '" + path + "': it names no file");
  llvm::SmallString<256> parent(llvm::sys::path::parent_path(resolved));
  if (parent.empty())
    parent = ".";
  llvm::SmallString<256> folder;
  if (std::error_code error = llvm::sys::fs::real_path(parent, folder))
    return cannotWrite(path, error.value());
  llvm::sys::path::append(folder, name);
  return folder.str().str();
}

void keepPermissions(int file, const struct stat &old) {
  struct stat now;
  if (fstat(file, &now) != 0)
    return;
  // This process still has to remove what is in a directory.
  mode_t mode = S_ISDIR(now.st_mode) ? (old.st_mode & 03777) | S_IRWXU : old.st_mode & 0777;
  // Another group may do what everybody might.
  if (now.st_gid != old.st_gid && fchown(file, -1, old.st_gid) != 0)
    mode &= ~(S_IRWXG | S_ISGID) | ((mode & S_IRWXO) << 3);
  (void)fchmod(file, mode);
}

llvm::Error syncPath(StringRef path) {
  int file = open(path.str().c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return cannotWrite(path, errno);
  int error = fsync(file) == 0 ? 0 : errno;
  close(file);
  return error == 0 ? llvm::Error::success() : cannotWrite(path, error);
}

} // namespace cleave::plan
