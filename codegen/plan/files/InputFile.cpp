//===- InputFile.cpp - An untrusted input file ----------------------------===//
#include "codegen/plan/files/InputFile.h"
#include "llvm/Support/BLAKE3.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cleave::plan {

using llvm::ErrorOr;
using llvm::StringRef;

static constexpr size_t kPieceBytes = 1 << 20;
static constexpr std::errc kNoRegularFile = std::errc::invalid_argument, kBecameShorter = std::errc::io_error;

static std::error_code lastError() { return std::error_code(errno, std::generic_category()); }

//===- Mapped files -------------------------------------------------------===//
// Signal handlers read this list: no locks, no allocation, and entries are never removed.

namespace {
struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::string path;
  Range *next = nullptr;
};
} // namespace

static std::mutex rangesMutex;
static std::atomic<Range *> ranges{nullptr};

static void addRange(StringRef path, const uint8_t *base, size_t length) {
  std::lock_guard lock(rangesMutex);
  Range *free = ranges;
  while (free && free->end != 0)
    free = free->next;
  if (!free) {
    free = new Range;
    free->next = ranges;
    ranges = free;
  }
  free->path = path;
  free->begin = reinterpret_cast<uintptr_t>(base);
  free->end = reinterpret_cast<uintptr_t>(base) + length;
}

static void removeRange(const uint8_t *base) {
  std::lock_guard lock(rangesMutex);
  for (Range *range = ranges; range; range = range->next)
    if (range->begin == reinterpret_cast<uintptr_t>(base) && range->end != 0) {
      range->end = 0;
      return;
    }
}

const char *mappedFileAt(const void *address) {
  const uintptr_t place = reinterpret_cast<uintptr_t>(address);
  for (const Range *range = ranges; range; range = range->next)
    if (range->begin <= place && place < range->end)
      return range->path.c_str();
  return nullptr;
}

MappedFile::MappedFile(StringRef path, uint8_t *base, size_t length) : base(base), length(length) {
  addRange(path, base, length);
}

MappedFile::~MappedFile() {
  removeRange(base);
  munmap(base, length);
}

void MappedFile::release(size_t offset, size_t size) const {
  const size_t page = sysconf(_SC_PAGESIZE), start = offset / page * page;
  madvise(base + start, offset + size - start, MADV_DONTNEED);
}

//===- Input files --------------------------------------------------------===//

ErrorOr<InputFile> InputFile::open(StringRef path) {
  const std::string name = path.str();
  struct stat facts;
  // Checked before opening, since opening a device can have effects.
  if (stat(name.c_str(), &facts) != 0)
    return lastError();
  if (!S_ISREG(facts.st_mode))
    return std::make_error_code(kNoRegularFile);
  // Non-blocking, in case the path has become a named pipe meanwhile.
  const int handle = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (handle < 0)
    return lastError();
  InputFile file(path, handle);
  if (fstat(handle, &facts) != 0)
    return lastError();
  if (!S_ISREG(facts.st_mode))
    return std::make_error_code(kNoRegularFile);
  file.length = facts.st_size;
  return file;
}

InputFile::~InputFile() {
  if (handle >= 0)
    close(handle);
}

std::error_code InputFile::readAt(llvm::MutableArrayRef<char> piece, uint64_t offset) const {
  while (!piece.empty()) {
    const ssize_t got = pread(handle, piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return lastError();
    if (got == 0)
      return std::make_error_code(kBecameShorter);
    piece = piece.drop_front(got);
    offset += got;
  }
  return {};
}

ErrorOr<Digest> InputFile::digest() const {
  llvm::BLAKE3 hasher;
  std::vector<char> piece(std::min<uint64_t>(kPieceBytes, length));
  for (uint64_t offset = 0; offset < length; offset += piece.size()) {
    llvm::MutableArrayRef<char> part = llvm::MutableArrayRef(piece).take_front(length - offset);
    if (std::error_code error = readAt(part, offset))
      return error;
    hasher.update(StringRef(part.data(), part.size()));
  }
  return hasher.final();
}

ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> InputFile::read() const {
  std::unique_ptr<llvm::WritableMemoryBuffer> buffer =
      llvm::WritableMemoryBuffer::getNewUninitMemBuffer(length, path);
  if (!buffer)
    return std::make_error_code(std::errc::not_enough_memory);
  if (std::error_code error = readAt(buffer->getBuffer(), 0))
    return error;
  return buffer;
}

ErrorOr<std::shared_ptr<MappedFile>> InputFile::map() const {
  void *base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, handle, 0);
  if (base == MAP_FAILED)
    return lastError();
  return std::shared_ptr<MappedFile>(new MappedFile(path, static_cast<uint8_t *>(base), length));
}

std::string describeInputError(std::error_code error) {
  if (error == kNoRegularFile)
    return "it is no regular file";
  return error == kBecameShorter ? "it became shorter while it was read" : error.message();
}

} // namespace cleave::plan
