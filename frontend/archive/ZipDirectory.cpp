//===- ZipDirectory.cpp - The records of a zip archive --------------------===//
//
// PKWARE's APPNOTE 4.3, as far as torch.jit.save uses it:
//
//   record…      local header 30 bytes, name, extra fields (`FB`: padding), content, data descriptor
//   directory    per record 46 bytes, name, extra field (1: sizes and offset of 64 bits)
//   end records  of 64 bits 56 bytes, its locator 20 bytes, of 32 bits 22 bytes
//
//===----------------------------------------------------------------------===//
#include "frontend/archive/ZipDirectory.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include <algorithm>

namespace cleave {

using llvm::StringRef;

static constexpr uint32_t kLocalHeader = 0x04034b50, kDescriptor = 0x08074b50, kEntry = 0x02014b50;
static constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50, kEnd = 0x06054b50;
static constexpr uint64_t kEnd64Bytes = 56, kLocatorBytes = 20, kEndBytes = 22;
static constexpr uint16_t kHasDescriptor = 1 << 3, kUtf8Names = 1 << 11;
static constexpr uint16_t kDeflated = 8;
static constexpr uint16_t kSizes64 = 1, kPadding = 0x4246;
/// Deflate cannot expand a byte to more (RFC 1951: 258 bytes in 2 bits).
static constexpr uint64_t kMaxExpansion = 1032;

static llvm::Error damaged(const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), what + "; copy or save the model again");
}

namespace {
/// Reads little-endian fields in order. Past the end they are 0, and the reader is not ok.
class FieldReader {
public:
  FieldReader(llvm::ArrayRef<uint8_t> bytes, uint64_t at)
      : rest(bytes.drop_front(std::min<uint64_t>(at, bytes.size()))) {}

  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  StringRef text(uint64_t count) {
    if (count > rest.size()) {
      isOk = false;
      rest = {};
      return "";
    }
    StringRef result(reinterpret_cast<const char *>(rest.data()), count);
    rest = rest.drop_front(count);
    return result;
  }
  bool ok() const { return isOk; }
  uint64_t left() const { return rest.size(); }

private:
  template <class T> T number() {
    StringRef bytes = text(sizeof(T));
    return bytes.empty() ? 0 : llvm::support::endian::read<T, llvm::endianness::little, 1>(bytes.data());
  }
  llvm::ArrayRef<uint8_t> rest;
  bool isOk = true;
};

/// Extent of the directory, as end records give it.
struct Extent {
  uint64_t records = 0, size = 0, offset = 0;
  bool operator==(const Extent &) const = default;
};

/// Fields of the directory that the local header repeats.
struct SharedFields {
  uint16_t versionNeeded, flags, method, time, date;
  bool operator==(const SharedFields &) const = default;
};

/// Fields that a writer sets to the same value in every entry.
struct WriterFields {
  uint16_t versionMade, disk, internalAttributes;
  uint32_t externalAttributes;
  bool operator==(const WriterFields &) const = default;
};

/// One entry of the directory.
struct Entry {
  SharedFields shared;
  WriterFields writer;
  uint32_t crc;
  uint64_t storedSize, size, headerOffset;
  StringRef name;
};

/// Reads an archive from its end to its beginning.
class DirectoryReader {
public:
  explicit DirectoryReader(llvm::ArrayRef<uint8_t> file) : file(file) {}
  llvm::Expected<std::vector<ZipRecord>> read();

private:
  llvm::Expected<Extent> readEnd();
  llvm::Error readEnd64(uint64_t locatorAt, Extent &extent, uint64_t &endsAt);
  llvm::Expected<Entry> readEntry(FieldReader &fields);
  /// Compares a record's local header and descriptor with its entry. `at`: where the record must begin; moved
  /// to its end.
  llvm::Expected<ZipRecord> readRecord(const Entry &entry, uint64_t &at);

  llvm::ArrayRef<uint8_t> file;
};
} // namespace

/// The value of a narrow field if a wider field holds the number, too.
static uint64_t saturated(uint64_t value, uint64_t limit) { return std::min(value, limit); }

static SharedFields readShared(FieldReader &fields) {
  SharedFields shared;
  shared.versionNeeded = fields.u16();
  shared.flags = fields.u16();
  shared.method = fields.u16();
  shared.time = fields.u16();
  shared.date = fields.u16();
  return shared;
}

llvm::Error DirectoryReader::readEnd64(uint64_t locatorAt, Extent &extent, uint64_t &endsAt) {
  FieldReader locator(file, locatorAt + 4);
  uint32_t disk = locator.u32();
  uint64_t at = locator.u64();
  if (disk != 0 || locator.u32() != 1 || locatorAt < kEnd64Bytes || at != locatorAt - kEnd64Bytes)
    return damaged("the locator of the archive's end record is damaged");
  FieldReader end(file, at);
  // The versions made by and needed are those of miniz, torch's only writer of this record.
  bool isMiniz =
      end.u32() == kEnd64 && end.u64() == kEnd64Bytes - 12 && end.u16() == 0x031e && end.u16() == 45;
  bool isOneDisk = end.u32() == 0 && end.u32() == 0;
  Extent wide;
  wide.records = end.u64();
  bool isCountTwice = end.u64() == wide.records;
  wide.size = end.u64();
  wide.offset = end.u64();
  Extent narrow{saturated(wide.records, UINT16_MAX), saturated(wide.size, UINT32_MAX),
                saturated(wide.offset, UINT32_MAX)};
  if (!isMiniz || !isOneDisk || !isCountTwice || narrow != extent)
    return damaged("the archive's end record of 64 bits is damaged");
  extent = wide;
  endsAt = at;
  return llvm::Error::success();
}

llvm::Expected<Extent> DirectoryReader::readEnd() {
  uint64_t endsAt = file.size() - std::min<uint64_t>(file.size(), kEndBytes);
  FieldReader end(file, endsAt);
  if (end.u32() != kEnd)
    return llvm::createStringError(
        "is not a TorchScript archive, or its end is missing or damaged; expected a file that "
        "torch.jit.save wrote");
  bool isOneDisk = end.u16() == 0 && end.u16() == 0;
  Extent extent;
  extent.records = end.u16();
  bool isCountTwice = end.u16() == extent.records;
  extent.size = end.u32();
  extent.offset = end.u32();
  bool isCommentEmpty = end.u16() == 0;
  if (!end.ok() || !isOneDisk || !isCountTwice || !isCommentEmpty)
    return damaged("the archive's end record is damaged");
  if (endsAt >= kLocatorBytes && FieldReader(file, endsAt - kLocatorBytes).u32() == kEnd64Locator)
    if (auto error = readEnd64(endsAt - kLocatorBytes, extent, endsAt))
      return error;
  if (extent.offset > endsAt || extent.size != endsAt - extent.offset)
    return damaged("the archive's directory does not end where its end record begins");
  return extent;
}

llvm::Expected<Entry> DirectoryReader::readEntry(FieldReader &fields) {
  if (fields.u32() != kEntry)
    return damaged("the archive's directory is damaged");
  Entry entry;
  entry.writer.versionMade = fields.u16();
  entry.shared = readShared(fields);
  entry.crc = fields.u32();
  entry.storedSize = fields.u32();
  entry.size = fields.u32();
  uint16_t nameLength = fields.u16(), extraLength = fields.u16(), commentLength = fields.u16();
  entry.writer.disk = fields.u16();
  entry.writer.internalAttributes = fields.u16();
  entry.writer.externalAttributes = fields.u32();
  entry.headerOffset = fields.u32();
  entry.name = fields.text(nameLength);
  uint64_t afterExtra = fields.left() - std::min<uint64_t>(fields.left(), extraLength);
  if (extraLength > 0) {
    // Only values that do not fit their 32-bit fields are here.
    bool isSizes = fields.u16() == kSizes64 && fields.u16() == extraLength - 4;
    for (uint64_t *value : {&entry.size, &entry.storedSize, &entry.headerOffset})
      if (*value == UINT32_MAX)
        *value = fields.u64();
    if (!isSizes)
      return damaged("record " + entry.name +
                     " has an extra field in the directory that torch.jit.save does not write");
  }
  if (!fields.ok() || fields.left() != afterExtra || commentLength != 0 || entry.writer.disk != 0)
    return damaged("the entry of record " + entry.name + " in the archive's directory is damaged");
  if (entry.shared.flags & ~(kHasDescriptor | kUtf8Names))
    return damaged("record " + entry.name + " has flags that torch.jit.save does not set");
  if (entry.shared.method == kDeflated ? entry.size / kMaxExpansion > entry.storedSize
                                       : entry.shared.method != 0 || entry.size != entry.storedSize)
    return damaged("record " + entry.name + " has sizes or a method that torch.jit.save does not write");
  return entry;
}

/// Checks the extra fields of a local header: 64-bit sizes if `isWide`, then padding.
static bool isExtraIntact(StringRef bytes, const Entry &entry, bool isWide) {
  FieldReader fields({bytes.bytes_begin(), bytes.size()}, 0);
  if (isWide) {
    // The header is written before compression, so the compressed size may still be 0.
    bool hasOffset = entry.headerOffset >= UINT32_MAX, hasSizes = entry.size >= UINT32_MAX;
    bool isIntact = fields.u16() == kSizes64 && fields.u16() == 16 * hasSizes + 8 * hasOffset;
    if (hasSizes) {
      isIntact &= fields.u64() == entry.size;
      uint64_t storedSize = fields.u64();
      isIntact &= storedSize == 0 || storedSize == entry.storedSize;
    }
    if (hasOffset)
      isIntact &= fields.u64() == entry.headerOffset;
    if (!isIntact)
      return false;
  }
  if (fields.left() > 0) {
    bool isPadding = fields.u16() == kPadding && fields.u16() == fields.left();
    if (!isPadding || fields.text(fields.left()).find_first_not_of('Z') != StringRef::npos)
      return false;
  }
  return fields.ok();
}

llvm::Expected<ZipRecord> DirectoryReader::readRecord(const Entry &entry, uint64_t &at) {
  FieldReader fields(file, at);
  bool isHeader =
      at == entry.headerOffset && fields.u32() == kLocalHeader && readShared(fields) == entry.shared;
  uint32_t crc = fields.u32(), storedSize = fields.u32(), size = fields.u32();
  bool isWide = entry.size >= UINT32_MAX || entry.headerOffset >= UINT32_MAX;
  bool hasDescriptor = entry.shared.flags & kHasDescriptor;
  // With a descriptor after the content, these fields are 0 in the header.
  bool isLater = hasDescriptor && crc == 0 && storedSize == 0 && size == 0;
  bool isSame = crc == entry.crc && storedSize == saturated(entry.storedSize, UINT32_MAX) &&
                size == saturated(entry.size, UINT32_MAX);
  uint16_t nameLength = fields.u16(), extraLength = fields.u16();
  isHeader &= fields.text(nameLength) == entry.name && isExtraIntact(fields.text(extraLength), entry, isWide);
  if (!fields.ok() || !isHeader || !(isLater || isSame))
    return damaged("the header of record " + entry.name + " is damaged");
  uint64_t offset = file.size() - fields.left();
  if (entry.storedSize > fields.left())
    return damaged("record " + entry.name + " reaches past the end of the file");
  FieldReader descriptor(file, offset + entry.storedSize);
  if (hasDescriptor) {
    bool isIntact = descriptor.u32() == kDescriptor && descriptor.u32() == entry.crc;
    isIntact &= (isWide ? descriptor.u64() : descriptor.u32()) == entry.storedSize;
    isIntact &= (isWide ? descriptor.u64() : descriptor.u32()) == entry.size;
    if (!isIntact)
      return damaged("the descriptor of record " + entry.name + " is damaged");
  }
  at = file.size() - descriptor.left();
  return ZipRecord{entry.name.str(), entry.crc, entry.shared.method == kDeflated,
                   entry.size,       offset,    entry.storedSize};
}

llvm::Expected<std::vector<ZipRecord>> DirectoryReader::read() {
  auto extent = readEnd();
  if (!extent)
    return extent.takeError();
  FieldReader fields(file.take_front(extent->offset + extent->size), extent->offset);
  std::vector<ZipRecord> records;
  llvm::StringSet<> names;
  std::optional<WriterFields> writer;
  uint64_t at = 0;
  for (uint64_t i = 0; i < extent->records; ++i) {
    auto entry = readEntry(fields);
    if (!entry)
      return entry.takeError();
    if (writer && entry->writer != *writer)
      return damaged("the entry of record " + entry->name + " in the archive's directory is damaged");
    writer = entry->writer;
    // libtorch looks names up without regard to case.
    if (!names.insert(entry->name.lower()).second)
      return damaged("record " + entry->name + " is in the archive twice");
    auto record = readRecord(*entry, at);
    if (!record)
      return record.takeError();
    records.push_back(std::move(*record));
  }
  if (fields.left() > 0 || at != extent->offset)
    return damaged("the archive has bytes that belong to no record");
  return records;
}

llvm::Expected<std::vector<ZipRecord>> readZipDirectory(llvm::ArrayRef<uint8_t> file) {
  return DirectoryReader(file).read();
}

} // namespace cleave
