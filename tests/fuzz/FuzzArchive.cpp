//===- FuzzArchive.cpp - Models from anyone -------------------------------===//
//
// A case is a TorchScript archive whose checksums fit: its records are changed, and the archive is made anew
// around them. It is refused, or imported. One bit of it flipped, it is refused.
//
//===----------------------------------------------------------------------===//
#include "frontend/archive/ArchiveCheck.h"
#include "frontend/archive/BytesReader.h"
#include "frontend/archive/TorchScriptFile.h"
#include "frontend/torchscript/Import.h"
#include "ir/Cleave.h"
#include "tests/fuzz/Fuzz.h"
#include "tools/driver/base/DiagnosticCollector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"
#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <sstream>

namespace cleave::fuzz {

using Records = std::vector<std::pair<std::string, std::vector<uint8_t>>>;

//===- Archives -----------------------------------------------------------===//

static std::string save(torch::jit::Module &module) {
  std::ostringstream out;
  module.save(out);
  return out.str();
}

static std::string saveLayers() {
  torch::jit::Module inner("__torch__.Inner"), outer("__torch__.Outer");
  inner.register_parameter("weight", at::ones({8, 8}), false);
  inner.register_buffer("scale", at::ones({8}, at::kDouble).slice(0, 0, 8, 2));
  inner.register_attribute("names", c10::ListType::ofStrings(), c10::List<std::string>({"a", "b"}));
  inner.define("def forward(self, x, flag: bool = True):\n"
               "  y = torch.linear(x, self.weight)\n"
               "  for i in range(len(self.names)):\n"
               "    y = torch.relu_(y + float(i))\n"
               "  if flag:\n"
               "    y = y * 2\n"
               "  return y\n");
  outer.register_module("inner", inner);
  outer.register_attribute("sizes", c10::DictType::create(c10::StringType::get(), c10::IntType::get()), [] {
    c10::Dict<std::string, int64_t> sizes;
    sizes.insert("width", 8);
    return sizes;
  }());
  outer.define("def forward(self, x):\n"
               "  y = self.inner.forward(x).view(-1, self.sizes[\"width\"])\n"
               "  z = y.split(1)\n"
               "  y[0] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])\n"
               "  return y, {\"first\": z[0], \"sum\": torch.sum(y, [0])}\n");
  return save(outer);
}

static std::string saveControlFlow() {
  torch::jit::Module module("__torch__.Flow");
  module.register_parameter("bias", at::zeros({8}), false);
  module.define("def forward(self, x):\n"
                "  count = 0\n"
                "  while bool(x.sum() > 1.0) and count < 3:\n"
                "    x = x - self.bias\n"
                "    count += 1\n"
                "  if bool(x.max() > 0):\n"
                "    x = -x\n"
                "  pairs = [(x, count), (x * 2, 1)]\n"
                "  text = str(count)\n"
                "  return [pair[0] for pair in pairs]\n");
  return save(module);
}

std::vector<std::string> seeds() { return {saveLayers(), saveControlFlow()}; }

/// True for records that the writer adds by itself.
static bool isWritersOwn(llvm::StringRef name) {
  return name == "version" || name == ".data/version" || name == "byteorder" ||
         name.starts_with(".data/serialization_id") || name == ".storage_alignment" ||
         name == ".format_version";
}

/// The records of an archive; nothing if it is not an archive.
static Records recordsOf(llvm::ArrayRef<uint8_t> archive) {
  try {
    auto found = checkArchive(archive, [](size_t, size_t) {});
    if (!found)
      return llvm::consumeError(found.takeError()), Records();
    caffe2::serialize::PyTorchStreamReader reader(std::make_shared<BytesReader>(archive));
    Records records;
    for (const ZipRecord &record : *found) {
      if (isWritersOwn(record.name))
        continue;
      auto [data, size] = reader.getRecord(record.name);
      auto *begin = static_cast<const uint8_t *>(data.get());
      records.push_back({record.name, {begin, begin + size}});
    }
    return records;
  } catch (const std::exception &) {
    return {};
  }
}

static std::vector<uint8_t> archiveOf(const Records &records) {
  std::vector<uint8_t> archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, size_t count) {
    auto *begin = static_cast<const uint8_t *>(bytes);
    archive.insert(archive.end(), begin, begin + count);
    return count;
  });
  for (const auto &[name, content] : records)
    writer.writeRecord(name, content.data(), content.size(),
                       /*compress=*/llvm::StringRef(name).starts_with("code/"));
  writer.writeEndOfFile();
  return archive;
}

//===- Cases --------------------------------------------------------------===//

static bool import(llvm::ArrayRef<uint8_t> bytes) {
  const MemoryFile archive(bytes);
  auto file = TorchScriptFile::open(archive.path);
  if (!file)
    return llvm::consumeError(file.takeError()), false;
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  DiagnosticCollector diagnostics(context);
  ModelInputs inputs;
  inputs.tensors = {{"x", at::kFloat, {4, 8}, {}, ""}};
  auto model = importTorchScript(*file, inputs, &context);
  std::string outcome = toString(diagnostics.takeError(""));
  if (succeeded(model)) {
    outcome = "imported";
    model->module->walk([&](mlir::Operation *op) { outcome += " " + op->getName().getStringRef().str(); });
  }
  noteOutcome(outcome);
  return true;
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  if (recordsOf(bytes).empty())
    return false;
  std::vector<uint8_t> damaged = bytes.vec();
  const size_t bit = llvm::xxh3_64bits(bytes) % (8 * bytes.size());
  damaged[bit / 8] ^= 1 << bit % 8;
  promise(recordsOf(damaged).empty(), "a flipped bit is not found: " + llvm::Twine(bit));
  // libtorch keeps what it has loaded, and its own mistakes must not end the search.
  return inChild(bytes, import);
}

} // namespace cleave::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  using namespace cleave::fuzz;
  Dice dice(seed);
  Records records = recordsOf({data, size});
  if (records.empty())
    return LLVMFuzzerMutate(data, size, most);
  auto &[name, content] = records[dice.below(records.size())];
  const size_t room = content.size() + 1 + dice.below(64);
  std::vector<uint8_t> changed = content;
  changed.resize(room);
  changed.resize(LLVMFuzzerMutate(changed.data(), content.size(), room));
  content = std::move(changed);
  if (dice.below(16) == 0)
    records.erase(records.begin() + dice.below(records.size()));
  std::vector<uint8_t> archive = archiveOf(records);
  if (archive.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  llvm::copy(archive, data);
  return archive.size();
}
