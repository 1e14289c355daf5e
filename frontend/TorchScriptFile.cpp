//===- TorchScriptFile.cpp - A TorchScript archive, mapped ----------------===//
#include "frontend/TorchScriptFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Errno.h"
#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_export_helpers.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/storage_context.h>
#include <torch/csrc/jit/serialization/unpickler.h>
#include <unistd.h>

namespace cleave {

static llvm::Error fail(llvm::StringRef path, const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

/// libtorch's messages carry its own backtrace; the first line says what happened.
static std::string firstLine(const std::exception &e) { return llvm::StringRef(e.what()).split('\n').first.str(); }

namespace {
/// A whole file, mapped privately: nobody writes through it, and pages that nobody reads are never loaded.
class Mapping {
public:
  static llvm::Expected<std::shared_ptr<Mapping>> open(llvm::StringRef path) {
    int file = ::open(path.str().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return fail(path, "cannot be read: " + llvm::sys::StrError());
    auto closer = llvm::make_scope_exit([&] { ::close(file); });
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
      return fail(path, "is not a file; expected a TorchScript archive, as torch.jit.save writes it");
    if (info.st_size == 0)
      return fail(path, "is empty; expected a TorchScript archive, as torch.jit.save writes it");
    void *base = mmap(nullptr, info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED)
      return fail(path, "cannot be mapped: " + llvm::sys::StrError());
    return std::shared_ptr<Mapping>(new Mapping(static_cast<uint8_t *>(base), info.st_size));
  }
  ~Mapping() { munmap(base, length); }

  llvm::ArrayRef<uint8_t> bytes() const { return {base, length}; }
  uint8_t *data() const { return base; }
  /// Forgets the pages of [offset, offset+size): they count as ours only while we read them.
  void release(size_t offset, size_t size) const {
    size_t page = sysconf(_SC_PAGESIZE), start = offset / page * page;
    madvise(base + start, offset + size - start, MADV_DONTNEED);
  }

private:
  Mapping(uint8_t *base, size_t length) : base(base), length(length) {}
  uint8_t *base;
  size_t length;
};

/// The mapping as the archive reader wants it.
class MappingReader : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit MappingReader(std::shared_ptr<Mapping> mapping) : mapping(std::move(mapping)) {}
  size_t size() const override { return mapping->bytes().size(); }
  size_t read(uint64_t offset, void *buffer, size_t count, const char *) const override {
    if (offset >= size())
      return 0;
    count = std::min<size_t>(count, size() - offset);
    memcpy(buffer, mapping->data() + offset, count);
    return count;
  }

private:
  std::shared_ptr<Mapping> mapping;
};
} // namespace

using caffe2::serialize::PyTorchStreamReader;

static constexpr size_t kChunk = 8 << 20;

static std::array<uint8_t, 32> fingerprintOf(const Mapping &file) {
  llvm::BLAKE3 hash;
  for (size_t at = 0; at < file.bytes().size(); at += kChunk) {
    auto chunk = file.bytes().slice(at, std::min(kChunk, file.bytes().size() - at));
    hash.update(chunk);
    file.release(at, chunk.size());
  }
  return hash.final<32>();
}

namespace {
struct RecordEntry {
  uint32_t crc;
  /// Not compressed: its bytes in the file are its content.
  bool isStored;
};
} // namespace

/// CRC32 and method of every record, from the archive's central directory (PKWARE APPNOTE 4.3.12), by the offset of its local
/// header. Nothing when the directory is damaged.
static std::optional<std::map<uint64_t, RecordEntry>> recordEntries(llvm::ArrayRef<uint8_t> file) {
  using namespace llvm::support::endian;
  constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50, kEntry = 0x02014b50;
  if (file.size() < 22)
    return std::nullopt;
  size_t end = file.size() - 22;
  if (read32le(&file[end]) != kEnd)
    return std::nullopt;
  uint64_t entries = read16le(&file[end + 10]), at = read32le(&file[end + 16]);
  // torch.jit.save always writes the 64-bit directory end as well.
  if (end >= 20 && read32le(&file[end - 20]) == kEnd64Locator) {
    uint64_t end64 = read64le(&file[end - 12]);
    if (end64 > file.size() || file.size() - end64 < 56 || read32le(&file[end64]) != kEnd64)
      return std::nullopt;
    entries = read64le(&file[end64 + 32]);
    at = read64le(&file[end64 + 48]);
  }
  std::map<uint64_t, RecordEntry> records;
  for (uint64_t i = 0; i < entries; ++i) {
    if (at > file.size() || file.size() - at < 46 || read32le(&file[at]) != kEntry)
      return std::nullopt;
    uint64_t name = read16le(&file[at + 28]), extra = read16le(&file[at + 30]), comment = read16le(&file[at + 32]);
    uint64_t offset = read32le(&file[at + 42]);
    // Offsets past 4 GiB stand in the 64-bit extra field, behind the sizes that are there too.
    if (offset == 0xffffffffu && extra >= 12 && file.size() - at >= 46 + name + extra) {
      const uint8_t *field = &file[at + 46 + name];
      size_t before = (read32le(&file[at + 24]) == 0xffffffffu) * 8 + (read32le(&file[at + 20]) == 0xffffffffu) * 8;
      if (read16le(field) == 1 && read16le(field + 2) >= before + 8)
        offset = read64le(field + 4 + before);
    }
    records[offset] = {read32le(&file[at + 16]), read16le(&file[at + 10]) == 0};
    at += 46 + name + extra + comment;
  }
  return records;
}

/// The CRC32 of a record's content. Weights are stored as they are and read in place; source text is compressed.
static uint32_t checksumOf(PyTorchStreamReader &reader, const std::string &name, bool isStored, const Mapping &file) {
  size_t offset = reader.getRecordOffset(name), size = reader.getRecordSize(name);
  if (!isStored) {
    auto [content, length] = reader.getRecord(name);
    return llvm::crc32({static_cast<const uint8_t *>(content.get()), length});
  }
  uint32_t crc = 0;
  for (size_t at = 0; at < size; at += kChunk) {
    size_t count = std::min(kChunk, size - at);
    crc = llvm::crc32(crc, file.bytes().slice(offset + at, count));
    file.release(offset + at, count);
  }
  return crc;
}

/// Compares every record with the checksum of the last local header before it.
static llvm::Error checkRecords(PyTorchStreamReader &reader, const Mapping &file, llvm::StringRef path) {
  auto entries = recordEntries(file.bytes());
  if (!entries)
    return fail(path, "the archive's directory is damaged; save the model again");
  for (const std::string &name : reader.getAllRecords()) {
    size_t offset = reader.getRecordOffset(name), size = reader.getRecordSize(name);
    if (offset > file.bytes().size() || size > file.bytes().size() - offset)
      return fail(path, "record " + name + " reaches past the end of the file, which is truncated; copy it again");
    // An empty record ends where the next header begins.
    auto expected = entries->lower_bound(offset);
    if (expected == entries->begin())
      return fail(path, "record " + name + " has no entry in the archive's directory; save the model again");
    const RecordEntry &entry = std::prev(expected)->second;
    if (checksumOf(reader, name, entry.isStored, file) != entry.crc)
      return fail(path, "record " + name + " is damaged (its CRC32 differs); copy or save the model again");
  }
  return llvm::Error::success();
}

/// One pickled archive of the file (`constants`, `data`), its tensors over the mapping.
static c10::IValue readPickle(const std::string &name, PyTorchStreamReader &reader,
                              const std::shared_ptr<Mapping> &mapping, torch::jit::TypeResolver resolver) {
  auto storages = std::make_shared<torch::jit::DeserializationStorageContext>();
  for (const std::string &record : reader.getAllRecords()) {
    if (record.rfind(name + "/", 0) != 0)
      continue;
    size_t offset = reader.getRecordOffset(record), size = reader.getRecordSize(record);
    at::DataPtr data(mapping->data() + offset, new std::shared_ptr<Mapping>(mapping),
                     [](void *owner) { delete static_cast<std::shared_ptr<Mapping> *>(owner); }, at::kCPU);
    storages->addStorage(record.substr(name.size() + 1),
                         c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(data)));
  }
  return torch::jit::readArchiveAndTensors(name, "", "", std::move(resolver), torch::jit::ObjLoaderFunc, std::nullopt,
                                           reader, torch::jit::Unpickler::defaultTypeParser, storages);
}

/// The source file that declares a class, as libtorch's own importer finds it.
static std::shared_ptr<torch::jit::Source> findSource(PyTorchStreamReader &reader, std::string qualifier) {
  std::replace(qualifier.begin(), qualifier.end(), '.', '/');
  std::string record = "code/" + qualifier + ".py";
  if (!reader.hasRecord(record))
    return nullptr;
  auto [data, size] = reader.getRecord(record);
  return std::make_shared<torch::jit::Source>(std::string(static_cast<char *>(data.get()), size), record, 1);
}

static torch::jit::Module loadModule(const std::shared_ptr<PyTorchStreamReader> &reader,
                                     const std::shared_ptr<Mapping> &mapping) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  auto constants = std::make_shared<std::vector<at::IValue>>();
  torch::jit::SourceImporter importer(
      unit, constants.get(), [reader](const std::string &qualifier) { return findSource(*reader, qualifier); },
      reader->version());
  auto resolver = [&](const c10::QualifiedName &name) { return c10::StrongTypePtr(unit, importer.loadType(name)); };
  auto tuple = readPickle("constants", *reader, mapping, resolver).toTuple();
  for (const c10::IValue &constant : tuple->elements())
    constants->push_back(constant);
  torch::jit::Module module(readPickle("data", *reader, mapping, resolver).toObject());
  // Methods compile on first use; their constants must be there by then.
  for (const torch::jit::Module &submodule : module.modules())
    for (const auto &method : submodule.get_methods())
      method.graph();
  return module;
}

llvm::Expected<TorchScriptFile> TorchScriptFile::open(llvm::StringRef path) {
  auto mapping = Mapping::open(path);
  if (!mapping)
    return mapping.takeError();
  std::shared_ptr<PyTorchStreamReader> reader;
  try {
    reader = std::make_shared<PyTorchStreamReader>(
        std::static_pointer_cast<caffe2::serialize::ReadAdapterInterface>(std::make_shared<MappingReader>(*mapping)));
  } catch (const std::exception &e) {
    return fail(path, "is not a TorchScript archive, or damaged (" + firstLine(e) +
                          "); expected a file that torch.jit.save wrote");
  }
  try {
    if (!reader->hasRecord("data.pkl") || !reader->hasRecord("constants.pkl"))
      return fail(path, "is an archive without a TorchScript module; expected a file that torch.jit.save wrote");
    if (auto error = checkRecords(*reader, **mapping, path))
      return error;
    auto release = [mapping = *mapping](const void *begin, size_t bytes) {
      size_t offset = static_cast<const uint8_t *>(begin) - mapping->data();
      if (offset < mapping->bytes().size() && bytes <= mapping->bytes().size() - offset)
        mapping->release(offset, bytes);
    };
    return TorchScriptFile{loadModule(reader, *mapping), fingerprintOf(**mapping), release};
  } catch (const std::exception &e) {
    return fail(path, "cannot be loaded as TorchScript: " + firstLine(e));
  }
}

} // namespace cleave
