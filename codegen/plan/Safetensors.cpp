//===- Safetensors.cpp - Safetensors files --------------------------------===//
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/files/AtomicFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"
#include <numeric>

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The limit of the reference implementation.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

//===- Reading ------------------------------------------------------------===//

static Error cannotRead(StringRef path, const llvm::Twine &why) {
  return llvm::createStringError("cannot read '" + path + "': " + why);
}

Expected<std::shared_ptr<SafetensorsFile>> SafetensorsFile::open(StringRef path) {
  auto file = InputFile::open(path);
  if (!file)
    return cannotRead(path,
                      describeInputError(file.getError()) + "; give a safetensors file that can be read");
  return open(*file);
}

Expected<std::shared_ptr<SafetensorsFile>> SafetensorsFile::open(const InputFile &input) {
  const StringRef path = input.name();
  if (input.bytes() < kHeaderLengthBytes + 2)
    return cannotRead(path, "it has " + llvm::Twine(input.bytes()) + " bytes, a safetensors file has more");
  auto mapping = input.map();
  if (!mapping)
    return cannotRead(path, describeInputError(mapping.getError()));
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(*mapping)));
  const uint8_t *base = file->mapping->data();
  uint64_t headerBytes = llvm::support::endian::read64le(base);
  uint64_t rest = file->fileBytes() - kHeaderLengthBytes;
  if (headerBytes > rest || headerBytes > kMaxHeaderBytes)
    return cannotRead(path, "it is no safetensors file, or truncated: its header would have " +
                                llvm::Twine(headerBytes) + " bytes, the file has " +
                                llvm::Twine(file->fileBytes()));
  StringRef header(reinterpret_cast<const char *>(base) + kHeaderLengthBytes, headerBytes);
  auto entries = parseHeader(header, rest - headerBytes);
  if (!entries)
    return cannotRead(path, toString(entries.takeError()));
  file->tensors = std::move(*entries);
  for (size_t i = 0; i < file->tensors.size(); ++i)
    file->indexOf[file->tensors[i].name] = i;
  return file;
}

const TensorEntry *SafetensorsFile::find(StringRef name) const {
  auto found = indexOf.find(name);
  return found == indexOf.end() ? nullptr : &tensors[found->second];
}

//===- Writing ------------------------------------------------------------===//

namespace {
/// A file being written, with the checksum of its content so far.
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

/// Writes one tensor; fails unless `write` passes exactly its bytes.
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

/// Order of the data. The format allows no gaps, so tensors whose sizes keep later ones aligned come first.
/// Every tensor is then aligned to the largest power of two, up to 64, that divides its size.
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
