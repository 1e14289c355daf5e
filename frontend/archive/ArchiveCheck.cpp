//===- ArchiveCheck.cpp - Integrity check of a model file -----------------===//
#include "frontend/archive/ArchiveCheck.h"
#include "frontend/archive/BytesReader.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/CRC.h"
#include <caffe2/serialize/inline_container.h>

namespace cleave {

using llvm::ArrayRef;

static constexpr size_t kPiece = 8 << 20;
/// A stream that differs from the compressor's own by fewer bits is damaged; by more bits, it is another
/// compressor's.
static constexpr size_t kFewBits = 64;

static llvm::Error damaged(const ZipRecord &record, const llvm::Twine &why) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "record " + record.name + " is damaged (" +
                                                                     why + "); copy or save the model again");
}

static llvm::Error checkStored(const ZipRecord &record, ArrayRef<uint8_t> file, const ReleaseBytes &release) {
  uint32_t crc = 0;
  for (uint64_t done = 0; done < record.size; done += kPiece) {
    uint64_t count = std::min<uint64_t>(kPiece, record.size - done);
    crc = llvm::crc32(crc, file.slice(record.offset + done, count));
    release(record.offset + done, count);
  }
  return crc == record.crc ? llvm::Error::success() : damaged(record, "its CRC32 differs");
}

static size_t differingBits(ArrayRef<uint8_t> a, ArrayRef<uint8_t> b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count += llvm::popcount(uint8_t(a[i] ^ b[i]));
  return count;
}

/// An archive with `content` as its only record, as torch's compressor writes it.
static std::vector<uint8_t> compressAgain(ArrayRef<uint8_t> content) {
  std::vector<uint8_t> archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, size_t count) {
    auto *begin = static_cast<const uint8_t *>(bytes);
    archive.insert(archive.end(), begin, begin + count);
    return count;
  });
  writer.writeRecord("again", content.data(), content.size(), /*compress=*/true);
  writer.writeEndOfFile();
  return archive;
}

static llvm::Error checkCompressed(const ZipRecord &record, ArrayRef<uint8_t> file,
                                   caffe2::serialize::PyTorchStreamReader &reader) {
  at::DataPtr data;
  size_t size = 0;
  try {
    std::tie(data, size) = reader.getRecord(record.name);
  } catch (const std::exception &) {
    return damaged(record, "it cannot be decompressed");
  }
  ArrayRef<uint8_t> content(static_cast<const uint8_t *>(data.get()), size);
  if (size != record.size || llvm::crc32(content) != record.crc)
    return damaged(record, "its CRC32 differs");
  std::vector<uint8_t> archive = compressAgain(content);
  auto again = readZipDirectory(archive);
  if (!again)
    return again.takeError();
  const ZipRecord &own = again->front();
  if (own.storedSize != record.storedSize)
    return llvm::Error::success();
  size_t bits = differingBits(file.slice(record.offset, record.storedSize),
                              ArrayRef<uint8_t>(archive).slice(own.offset, own.storedSize));
  return bits == 0 || bits >= kFewBits ? llvm::Error::success()
                                       : damaged(record, "its compressed bytes differ");
}

/// Removes the folder from the names, as libtorch's reader does.
static llvm::Error stripFolder(std::vector<ZipRecord> &records) {
  if (records.empty())
    return llvm::createStringError("is an empty archive; expected a file that torch.jit.save wrote");
  std::string folder = records.front().name.substr(0, records.front().name.find('/') + 1);
  for (ZipRecord &record : records) {
    if (folder.empty() || record.name.rfind(folder, 0) != 0)
      return llvm::createStringError(
          "is an archive whose records are not in one folder; expected a file that "
          "torch.jit.save wrote");
    record.name.erase(0, folder.size());
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ZipRecord>> checkArchive(ArrayRef<uint8_t> file, const ReleaseBytes &release) {
  auto records = readZipDirectory(file);
  if (!records)
    return records.takeError();
  if (auto error = stripFolder(*records))
    return error;
  for (const ZipRecord &record : *records)
    if (!record.isCompressed)
      if (auto error = checkStored(record, file, release))
        return error;
  caffe2::serialize::PyTorchStreamReader reader(std::make_shared<BytesReader>(file));
  for (const ZipRecord &record : *records)
    if (record.isCompressed)
      if (auto error = checkCompressed(record, file, reader))
        return error;
  return records;
}

} // namespace cleave
