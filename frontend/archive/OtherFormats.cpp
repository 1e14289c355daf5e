//===- OtherFormats.cpp - Model files that are no TorchScript -------------===//
#include "frontend/archive/OtherFormats.h"
#include "frontend/archive/ZipDirectory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

namespace cleave {

using llvm::StringRef;

/// Of an archive, by the names of its records: those of the folder that all are in, or of no folder.
static std::optional<std::string> describeArchive(llvm::ArrayRef<ZipRecord> records) {
  auto has = [&](StringRef name) {
    return llvm::any_of(records, [&](const ZipRecord &record) {
      return record.name == name || StringRef(record.name).split('/').second == name;
    });
  };
  if (has("data.pkl") && has("constants.pkl"))
    return std::nullopt;
  // Two layouts: of PyTorch before 2.8, and of later ones.
  if (has("serialized_exported_program.json") || has("archive_format"))
    return "is a torch.export archive (.pt2), expected TorchScript; .pt2 files cannot be compiled yet: trace "
           "the module with cleave-trace, or torch.jit.trace torch.export.load(FILE).module()";
  if (has("data.pkl"))
    return "is a file of torch.save, which holds weights or a pickled module and no program, expected "
           "TorchScript; trace the module with cleave-trace";
  return std::nullopt;
}

/// The length of the header, then the header in JSON.
static bool isSafetensors(llvm::ArrayRef<uint8_t> file) {
  if (file.size() < 9 || file[8] != '{')
    return false;
  return llvm::support::endian::read64le(file.data()) <= file.size() - 8;
}

std::optional<std::string> describeOtherFormat(StringRef path, llvm::ArrayRef<uint8_t> file) {
  const StringRef bytes = llvm::toStringRef(file);
  if (bytes.starts_with("PK")) {
    auto records = readZipDirectory(file);
    if (records)
      return describeArchive(*records);
    llvm::consumeError(records.takeError());
    return std::nullopt;
  }
  if (isSafetensors(file))
    return "is a safetensors file, which holds weights and no program, expected TorchScript; trace the "
           "module "
           "that has them with cleave-trace";
  // What torch.save wrote before PyTorch 1.6: a pickle of protocol 2 with a magic number of ten bytes.
  if (bytes.starts_with(StringRef("\x80\x02\x8a\x0a", 4)))
    return "is a file of torch.save, which holds weights or a pickled module and no program, expected "
           "TorchScript; trace the module with cleave-trace";
  if (path.ends_with(".py"))
    return "is Python source, expected TorchScript; trace the module with cleave-trace";
  return std::nullopt;
}

} // namespace cleave
