//===- TorchScriptFile.cpp - A memory-mapped TorchScript archive ----------===//
#include "frontend/archive/TorchScriptFile.h"
#include "codegen/plan/files/InputFile.h"
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "frontend/archive/ArchiveCheck.h"
#include "frontend/archive/BytesReader.h"
#include "frontend/archive/OperatorCheck.h"
#include "frontend/archive/OtherFormats.h"
#include "frontend/archive/PickleCheck.h"
#include "frontend/archive/SourceCheck.h"
#include "frontend/archive/TorchScriptError.h"
#include "frontend/archive/Unpickle.h"
#include "llvm/Support/BLAKE3.h"
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <vector>

namespace cleave {

static llvm::Error fail(llvm::StringRef path, const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

/// libtorch's messages contain its own backtrace; their first line that is not empty says what happened. If
/// code of the model ran, that line is not enough.
static std::string describe(const std::exception &e) {
  llvm::StringRef message = llvm::StringRef(e.what()).ltrim();
  if (message.starts_with("The following operation failed in the TorchScript interpreter"))
    return errorLine(message).str();
  return message.split('\n').first.rtrim(" :").str();
}

/// Maps the whole file privately; it is never written through the mapping.
static llvm::Expected<std::shared_ptr<plan::MappedFile>> map(llvm::StringRef path) {
  const char *expected = "; expected a TorchScript archive, as torch.jit.save writes it";
  auto file = plan::InputFile::open(path);
  if (!file && file.getError() == std::errc::invalid_argument)
    return fail(path, llvm::Twine("is not a file") + expected);
  if (!file)
    return fail(path, "cannot be read: " + file.getError().message() +
                          (file.getError() == std::errc::permission_denied
                               ? "; give one that you may read"
                               : "; give a TorchScript archive, as torch.jit.save writes it"));
  if (file->bytes() == 0)
    return fail(path, llvm::Twine("is empty") + expected);
  auto mapping = file->map();
  if (!mapping)
    return fail(path, "cannot be mapped: " + mapping.getError().message());
  return *mapping;
}

using caffe2::serialize::PyTorchStreamReader;

static constexpr size_t kChunk = 8 << 20;

static std::array<uint8_t, 32> fingerprintOf(const plan::MappedFile &file, const ReleaseBytes &release) {
  llvm::BLAKE3 hash;
  for (size_t at = 0; at < file.bytes().size(); at += kChunk) {
    auto chunk = file.bytes().slice(at, std::min(kChunk, file.bytes().size() - at));
    hash.update(chunk);
    release(at, chunk.size());
  }
  return hash.final<32>();
}

/// Reads one pickled archive of the file (`constants`, `data`), with tensors in the mapping.
static c10::IValue readPickle(const std::string &name, PyTorchStreamReader &reader,
                              llvm::ArrayRef<ZipRecord> records,
                              const std::shared_ptr<plan::MappedFile> &mapping,
                              torch::jit::TypeResolver resolver) {
  auto [pickle, size] = reader.getRecord(name + ".pkl");
  if (llvm::Error error = checkPickle({static_cast<const uint8_t *>(pickle.get()), size}))
    TORCH_CHECK(false, "record ", name, ".pkl is damaged: ", llvm::toString(std::move(error)));
  auto storages = std::make_shared<torch::jit::DeserializationStorageContext>();
  for (const ZipRecord &record : records) {
    if (record.name.rfind(name + "/", 0) != 0)
      continue;
    TORCH_CHECK(!record.isCompressed, "record ", record.name, " holds a weight and is compressed");
    at::DataPtr data(
        mapping->data() + record.offset, new std::shared_ptr<plan::MappedFile>(mapping),
        [](void *owner) { delete static_cast<std::shared_ptr<plan::MappedFile> *>(owner); }, at::kCPU);
    storages->addStorage(record.name.substr(name.size() + 1),
                         c10::Storage(c10::Storage::use_byte_size_t(), record.size, std::move(data)));
  }
  return unpickle({static_cast<const uint8_t *>(pickle.get()), size}, reader.version(), std::move(resolver),
                  std::move(storages));
}

/// The source file that declares a class, as libtorch's own importer finds it.
static std::shared_ptr<torch::jit::Source> findSource(PyTorchStreamReader &reader, std::string qualifier) {
  std::replace(qualifier.begin(), qualifier.end(), '.', '/');
  std::string record = "code/" + qualifier + ".py";
  if (!reader.hasRecord(record))
    return nullptr;
  auto [data, size] = reader.getRecord(record);
  std::string code(static_cast<char *>(data.get()), size);
  if (llvm::Error error = checkEmptySubscripts(code))
    TORCH_CHECK(false, "record ", record, " is damaged: ", llvm::toString(std::move(error)));
  return std::make_shared<torch::jit::Source>(std::move(code), record, 1);
}

static torch::jit::Module loadModule(const std::shared_ptr<PyTorchStreamReader> &reader,
                                     llvm::ArrayRef<ZipRecord> records,
                                     const std::shared_ptr<plan::MappedFile> &mapping) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  // Threads that a model starts while it is opened go on in its functions, also when opening it fails.
  static std::vector<std::shared_ptr<torch::jit::CompilationUnit>> &begun =
      *new std::vector<std::shared_ptr<torch::jit::CompilationUnit>>;
  begun.push_back(unit);
  auto constants = std::make_shared<std::vector<at::IValue>>();
  torch::jit::SourceImporter importer(
      unit, constants.get(),
      [reader](const std::string &qualifier) { return findSource(*reader, qualifier); }, reader->version());
  auto resolver = [&](const c10::QualifiedName &name) {
    return c10::StrongTypePtr(unit, importer.loadType(name));
  };
  auto tuple = readPickle("constants", *reader, records, mapping, resolver).toTuple();
  for (const c10::IValue &constant : tuple->elements())
    constants->push_back(constant);
  c10::IValue value = readPickle("data", *reader, records, mapping, resolver);
  TORCH_CHECK(value.isModule(), "it holds a ", value.tagKind(), ", expected a module");
  torch::jit::Module module(value.toObject());
  // Methods compile on first use, and need their constants by then.
  for (const torch::jit::Module &submodule : module.modules())
    for (const auto &method : submodule.get_methods())
      method.graph();
  begun.pop_back();
  return module;
}

/// True if the archive has the records of every TorchScript module.
static bool holdsModule(llvm::ArrayRef<ZipRecord> records) {
  return llvm::all_of(std::array{"data.pkl", "constants.pkl"}, [&](llvm::StringRef name) {
    return llvm::any_of(records, [&](const ZipRecord &record) { return record.name == name; });
  });
}

/// Prefixes each line, so that none looks like one of Cleave's messages.
static void printModelText(const std::string &text) {
  plan::printLines("model: ", llvm::StringRef(text).rtrim('\n'));
}

namespace {
class PrintableWarnings : public c10::WarningHandler {
  void process(const c10::Warning &warning) override {
    plan::printLine("note: the model warns: " + plan::printable(warning.msg()));
  }
};
} // namespace

/// Text that a model's code prints, and its warnings, go to stderr without control characters. The warning
/// handler is this thread's; warnings of other threads come as libtorch's own (plan::redirectStdStreams).
static void keepModelTextPrintable() {
  static PrintableWarnings warnings;
  c10::WarningUtils::set_warning_handler(&warnings);
  torch::jit::setPrintHandler(printModelText);
}

llvm::Expected<TorchScriptFile> TorchScriptFile::open(llvm::StringRef path,
                                                      const std::function<void(double)> &progress,
                                                      bool requireListedOperators) {
  keepModelTextPrintable();
  auto opened = map(path);
  if (!opened)
    return opened.takeError();
  std::shared_ptr<plan::MappedFile> mapping = *opened;
  if (auto other = describeOtherFormat(path, mapping->bytes()))
    return fail(path, *other);
  // Every byte is read twice: for its record's CRC32 and for the fingerprint.
  size_t read = 0;
  auto releaseRead = [&](size_t offset, size_t size) {
    mapping->release(offset, size);
    read += size;
    if (progress)
      progress(std::min(1.0, read / (2.0 * mapping->bytes().size())));
  };
  try {
    auto records = checkArchive(mapping->bytes(), releaseRead);
    if (!records)
      return fail(path, llvm::toString(records.takeError()));
    if (!holdsModule(*records))
      return fail(path,
                  "is an archive without a TorchScript module; expected a file that torch.jit.save wrote");
    auto reader =
        std::make_shared<PyTorchStreamReader>(std::make_shared<BytesReader>(mapping->bytes(), mapping));
    if (requireListedOperators)
      if (llvm::Error error = checkOperators(*reader, *records))
        return fail(path, llvm::toString(std::move(error)));
    auto release = [mapping](const void *begin, size_t bytes) {
      size_t offset = static_cast<const uint8_t *>(begin) - mapping->data();
      if (offset < mapping->bytes().size() && bytes <= mapping->bytes().size() - offset)
        mapping->release(offset, bytes);
    };
    return TorchScriptFile{loadModule(reader, *records, mapping), fingerprintOf(*mapping, releaseRead),
                           reader->serializationId(), release, mapping->bytes().size()};
  } catch (const std::exception &e) {
    return fail(path, "cannot be loaded as TorchScript: " + describe(e));
  }
}

} // namespace cleave
