//===- Safetensors.cpp - Tensors in a file --------------------------------===//
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/AtomicFile.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// What the reference implementation accepts as well.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

//===- Reading ------------------------------------------------------------===//

namespace {
struct Mapping {
  uint8_t *base;
  uint64_t length;
};
} // namespace

static Error cannotRead(StringRef path, const llvm::Twine &why) {
  return llvm::createStringError("cannot read '" + path + "': " + why);
}

/// Maps a regular file of at least `atLeast` bytes, copy on write.
static Expected<Mapping> mapFile(StringRef path, uint64_t atLeast) {
  // Not to wait for a writer, should it be a named pipe.
  int file = open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return cannotRead(path, std::strerror(errno) + llvm::Twine("; give a safetensors file that can be read"));
  auto close = llvm::make_scope_exit([&] { ::close(file); });
  struct stat status;
  if (fstat(file, &status) != 0)
    return cannotRead(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return cannotRead(path, "it is no regular file; give a safetensors file");
  uint64_t length = status.st_size;
  if (length < atLeast)
    return cannotRead(path, "it has " + llvm::Twine(length) + " bytes, a safetensors file has more");
  void *base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED)
    return cannotRead(path, std::strerror(errno));
  return Mapping{static_cast<uint8_t *>(base), length};
}

Expected<std::shared_ptr<SafetensorsFile>> SafetensorsFile::open(StringRef path) {
  Expected<Mapping> mapping = mapFile(path, kHeaderLengthBytes + 2);
  if (!mapping)
    return mapping.takeError();
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->base = mapping->base;
  file->length = mapping->length;
  uint64_t headerBytes = llvm::support::endian::read64le(file->base);
  uint64_t rest = file->length - kHeaderLengthBytes;
  if (headerBytes > rest || headerBytes > kMaxHeaderBytes)
    return cannotRead(path, "it is no safetensors file, or truncated: its header would have " +
                                llvm::Twine(headerBytes) + " bytes, the file has " +
                                llvm::Twine(file->length));
  StringRef header(reinterpret_cast<char *>(file->base) + kHeaderLengthBytes, headerBytes);
  auto entries = parseHeader(header, rest - headerBytes);
  if (!entries)
    return cannotRead(path, toString(entries.takeError()));
  file->tensors = std::move(*entries);
  for (size_t i = 0; i < file->tensors.size(); ++i)
    file->indexOf[file->tensors[i].name] = i;
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (base)
    munmap(base, length);
}

const TensorEntry *SafetensorsFile::find(StringRef name) const {
  auto found = indexOf.find(name);
  return found == indexOf.end() ? nullptr : &tensors[found->second];
}

//===- Writing ------------------------------------------------------------===//

namespace {
/// A file under way, with the checksum of what it holds so far.
class HashedFile {
public:
  explicit HashedFile(AtomicFile &file) : file(file) {}
  Error write(llvm::ArrayRef<uint8_t> bytes) {
    hasher.update(bytes);
    length += bytes.size();
    return file.write(bytes);
  }
  WrittenFile written() { return {length, hasher.final()}; }

private:
  AtomicFile &file;
  llvm::BLAKE3 hasher;
  uint64_t length = 0;
};
} // namespace

/// Writes one tensor, and fails unless exactly its bytes came.
static Error writeEntry(HashedFile &file, const TensorEntry &entry,
                        llvm::function_ref<Error(ByteSink sink)> write) {
  uint64_t left = entry.bytes;
  auto sink = [&](llvm::ArrayRef<uint8_t> bytes) -> Error {
    if (bytes.size() > left)
      return llvm::createStringError("tensor '" + entry.name + "': more than its " +
                                     llvm::Twine(entry.bytes) + " bytes came");
    left -= bytes.size();
    return file.write(bytes);
  };
  if (Error error = write(sink))
    return error;
  if (left != 0)
    return llvm::createStringError("tensor '" + entry.name + "': " + llvm::Twine(left) + " of its " +
                                   llvm::Twine(entry.bytes) + " bytes did not come");
  return Error::success();
}

/// The order in which data is written: the format allows no gaps, so tensors whose sizes keep those after
/// them aligned come first. Every tensor then stands on the largest power of two, up to 64, that divides its
/// size.
static std::vector<size_t> dataOrder(llvm::ArrayRef<TensorEntry> entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  auto alignment = [&](size_t index) { return std::gcd<uint64_t>(entries[index].bytes, 64); };
  llvm::stable_sort(order, [&](size_t a, size_t b) { return alignment(a) > alignment(b); });
  return order;
}

static Error setBytes(llvm::MutableArrayRef<TensorEntry> entries) {
  for (TensorEntry &entry : entries) {
    std::optional<uint64_t> bytes = bytesOf(entry.dtype, entry.shape);
    if (!bytes)
      return llvm::createStringError("tensor '" + entry.name + "': no sizes of a " + nameOf(entry.dtype) +
                                     " tensor");
    entry.bytes = *bytes;
  }
  return Error::success();
}

Expected<WrittenFile> writeSafetensors(AtomicFile &into, std::vector<TensorEntry> entries,
                                       llvm::function_ref<Error(size_t entry, ByteSink sink)> write) {
  if (Error error = setBytes(entries))
    return error;
  std::vector<size_t> order = dataOrder(entries);
  std::vector<TensorEntry> arranged;
  for (size_t index : order)
    arranged.push_back(std::move(entries[index]));
  Expected<std::string> header = formatHeader(arranged);
  if (!header)
    return header.takeError();
  HashedFile file(into);
  if (Error error = file.write(llvm::arrayRefFromStringRef(*header)))
    return error;
  for (auto [entry, index] : llvm::zip(arranged, order))
    if (Error error = writeEntry(file, entry, [&, i = index](ByteSink sink) { return write(i, sink); }))
      return error;
  return file.written();
}

Expected<WrittenFile> writeSafetensors(StringRef path, std::vector<TensorEntry> entries,
                                       llvm::function_ref<Error(size_t entry, ByteSink sink)> write) {
  Expected<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  Expected<WrittenFile> written = writeSafetensors(*file, std::move(entries), write);
  if (!written)
    return written;
  if (Error error = file->commit())
    return error;
  return written;
}

} // namespace cleave::plan
