//===- FuzzInputs.cpp - Small files and words from anyone -----------------===//
//
// A case is read as a safetensors file, also of witnesses, as the header of one, as the description of
// witnesses, and as options of `cleave compile`, a line each. What passes is what it should be.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/SafetensorsHeader.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "runtime/base/TensorFile.h"
#include "tests/fuzz/Fuzz.h"
#include "tools/driver/base/InputOptions.h"
#include "tools/driver/base/Mesh.h"
#include "tools/driver/base/PassPipeline.h"
#include "tools/driver/witnesses/Projection.h"
#include "tools/driver/witnesses/WitnessFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <ATen/ATen.h>

namespace cleave::fuzz {

static constexpr char kHeader[] = R"({"__metadata__": {"format": "pt"},
 "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
 "b": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
 "c\u00e9": {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [32, 32]}})";
static constexpr char kOptions[] = R"(input ids:i64[4,128]
input x:float32[]
input sr=16000
dynamic ids=batch,seq
role ids=tokens
mesh pp=4
machine cpu:4
stage-before transformer.h.1
capture-points transformer.h.[0-9].*
schedule interleaved
dtype bf16
batch 1
)";
static constexpr uint64_t kHeaderData = 32;
static constexpr char kWitnesses[] = R"({"version": 1, "model": "42", "warnings": ["net.py:3: a length"],
 "dimensions": [{"dims": [["x", 0]], "traced": 2, "min": 1, "max": 9223372036854775807, "divisible_by": 1,
 "below": "", "above": "", "between": "", "where": "h.0"}],
 "witnesses": [{"name": "traced", "inputs": {"x": "a"}, "outputs": {"y": "b", "z": "p"}}]})";

/// A safetensors file with that header.
static std::string fileOf(llvm::StringRef header, uint64_t dataBytes) {
  std::string file(plan::kHeaderLengthBytes, '\0');
  llvm::support::endian::write64le(file.data(), header.size());
  return file + header.str() + std::string(dataBytes, '\1');
}

/// A file of witnesses with that description, and the tensors that the seed names.
static std::string witnessesOf(llvm::StringRef description) {
  constexpr size_t kSamples = 8 * kProjectionSamples;
  const size_t bytes = llvm::alignTo(description.size(), 8);
  std::string header = "{", data = description.str() + std::string(bytes - description.size(), ' ');
  auto add = [&](const char *name, const char *dtype, const char *shape, size_t size) {
    header += llvm::formatv(R"("{0}": {{"dtype": "{1}", "shape": {2}, "data_offsets": [{3}, {4}]}, )", name,
                            dtype, shape, data.size(), data.size() + size)
                  .str();
    data += std::string(size, '\1');
  };
  add("a", "F32", "[2, 3]", 24);
  add("b", "I64", "[]", 8);
  add("p.projection", "F64", "[]", 8);
  add("p.samples", "F64", "[64]", kSamples);
  add("p.largest", "F64", "[]", 8);
  add("p.shape", "I64", "[1]", 8);
  header +=
      llvm::formatv(R"("description": {{"dtype": "U8", "shape": [{0}], "data_offsets": [0, {0}]})", bytes)
          .str();
  return fileOf(header + "}", 0) + data;
}

std::vector<std::string> seeds() {
  return {kHeader, kOptions, fileOf(kHeader, kHeaderData), kWitnesses, witnessesOf(kWitnesses)};
}

/// What was read is within its limits.
static void readWitnesses(const std::string &path) {
  auto file = WitnessFile::read(path);
  if (!file)
    return noteOutcome(llvm::StringRef(toString(file.takeError())).split(": ").second);
  noteOutcome("witnesses");
  for (const WitnessedDimension &dimension : file->dimensions)
    promise(dimension.range.contains(dimension.traced), "a range without the traced size");
  for (const Witness &witness : file->witnesses)
    for (const WitnessedOutput &output : witness.outputs)
      promise(output.whole.defined() ||
                  (output.samples.size() == kProjectionSamples && !output.sums.empty() &&
                   (output.nonfinite.empty() || output.nonfinite.size() == output.sums.size())),
              "an output without its numbers");
}

/// Reads every element of every tensor.
static void readTensorFile(llvm::StringRef path) {
  auto tensors = runtime::readTensors(path);
  if (!tensors)
    return noteOutcome(llvm::StringRef(toString(tensors.takeError())).split(": ").second);
  noteOutcome("tensors");
  uint64_t sum = 0;
  for (const runtime::NamedTensor &tensor : *tensors)
    for (uint8_t byte :
         llvm::ArrayRef(static_cast<const uint8_t *>(tensor.tensor.const_data_ptr()), tensor.tensor.nbytes()))
      sum += byte;
  promise(sum != UINT64_MAX, "a sum");
}

static CompileOptions optionsOf(llvm::StringRef text) {
  CompileOptions options;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto [option, value] = line.split(' ');
    auto *list = llvm::StringSwitch<std::vector<std::string> *>(option)
                     .Case("input", &options.inputs)
                     .Case("dynamic", &options.dynamic)
                     .Case("role", &options.roles)
                     .Case("frequency", &options.frequencies)
                     .Case("stage-before", &options.stageBefore)
                     .Case("capture-points", &options.capturePoints)
                     .Default(nullptr);
    auto *word = llvm::StringSwitch<std::string *>(option)
                     .Case("mesh", &options.mesh)
                     .Case("machine", &options.machine)
                     .Case("schedule", &options.schedule)
                     .Case("dtype", &options.dtype)
                     .Default(nullptr);
    if (list)
      list->push_back(value.str());
    else if (word)
      *word = value.str();
    else if (option == "batch")
      options.microbatches = 2;
  }
  return options;
}

/// Valid options must appear unchanged in the pass pipeline.
static void readOptions(llvm::StringRef text) {
  CompileOptions options = optionsOf(text);
  auto inputs = readInputOptions(options);
  if (!inputs)
    return noteOutcome(toString(inputs.takeError()));
  auto shape = readPipelineShape(options);
  if (!shape)
    return noteOutcome(toString(shape.takeError()));
  if (shape->microbatches != 1)
    if (auto error = nameBatch(*inputs).moveInto(shape->batch))
      return noteOutcome(toString(std::move(error)));
  static const bool isRegistered = (registerPasses(), true);
  (void)isRegistered;
  std::string pipeline = passPipelineOf(options, *shape), errors, printed;
  llvm::raw_string_ostream out(printed), errorOut(errors);
  auto parsed = mlir::parsePassPipeline(pipeline, errorOut);
  promise(succeeded(parsed), "a pipeline that does not parse: " + pipeline + ": " + errors);
  parsed->printAsTextualPipeline(out);
  for (const std::string &path : options.stageBefore)
    promise(llvm::StringRef(printed).contains(path), path + " is not in " + printed);
  noteOutcome("options");
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  MemoryFile file(bytes), headed(bytesOf(fileOf(textOf(bytes), kHeaderData)));
  readTensorFile(file.path);
  readTensorFile(headed.path);
  MemoryFile described(bytesOf(witnessesOf(textOf(bytes))));
  readWitnesses(file.path);
  readWitnesses(described.path);
  readOptions(textOf(bytes));
  return true;
}

} // namespace cleave::fuzz
