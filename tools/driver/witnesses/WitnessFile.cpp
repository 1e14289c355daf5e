//===- WitnessFile.cpp - What the original module answered ----------------===//
#include "tools/driver/witnesses/WitnessFile.h"
#include "codegen/plan/files/InputFile.h"
#include "partitioner/machine/JsonFile.h"
#include "runtime/base/DTypes.h"
#include "tools/driver/base/FilesBeside.h"
#include "tools/driver/witnesses/Projection.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <ATen/ATen.h>
#include <cmath>
#include <map>
#include <set>

namespace cleave {

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

/// cleave-trace writes at most 10 MB.
static constexpr uint64_t kMaxFileBytes = 16 << 20;
static constexpr JsonFileKind kDescription{"description of witnesses", 2 << 20, 10'000};
static constexpr int64_t kVersion = 1;
static constexpr size_t kMaxRank = 64;
/// The plan runs on each.
static constexpr size_t kMaxWitnesses = 256;

/// Reads the tensors and the description of a file.
class WitnessReader {
public:
  explicit WitnessReader(const std::string &path) { result.path = path; }
  Expected<WitnessFile> read();

private:
  Error open();
  Expected<json::Object> readDescription();
  Error readWarnings(const json::Object &description);
  Error readDimensions(const json::Object &description);
  Expected<WitnessedDimension> readDimension(const Twine &where, const json::Value &value);
  Error readPlaces(const Twine &where, const json::Object &object, WitnessedDimension &dimension);
  Error readWitnesses(const json::Object &description);
  Expected<Witness> readWitness(const Twine &where, const json::Value &value);
  Expected<WitnessedOutput> readOutput(StringRef name, const std::string &key);
  Error readProjection(const std::string &key, WitnessedOutput &output);
  template <typename T>
  Error readNumbers(const std::string &name, llvm::ArrayRef<int64_t> shape, std::vector<T> &numbers);
  /// Fails unless the dimensions are those of the inputs.
  Error checkDimensions() const;

  /// The tensor, or null. Read once, since a tensor that is not aligned is copied.
  Expected<const at::Tensor *> find(const std::string &name);
  Expected<at::Tensor> tensor(const std::string &name);
  /// A tensor of this dtype and shape.
  Expected<at::Tensor> tensor(const std::string &name, at::ScalarType dtype, llvm::ArrayRef<int64_t> shape);
  Error damaged(const Twine &where, const Twine &what) const;

  WitnessFile result;
  std::shared_ptr<plan::SafetensorsFile> file;
  std::map<std::string, at::Tensor> tensors;
};

Error WitnessReader::damaged(const Twine &where, const Twine &what) const {
  return llvm::createStringError(Twine(result.path) + ": " + where + (where.isTriviallyEmpty() ? "" : ": ") +
                                 what + "; trace the model again, or remove the file");
}

//===- Tensors ------------------------------------------------------------===//

Error WitnessReader::open() {
  auto input = plan::InputFile::open(result.path);
  if (!input)
    return damaged("", plan::describeInputError(input.getError()));
  if (input->bytes() > kMaxFileBytes)
    return damaged("", "found " + Twine(input->bytes()) + " bytes, expected at most " + Twine(kMaxFileBytes));
  auto opened = plan::SafetensorsFile::open(*input);
  if (!opened)
    return llvm::createStringError(llvm::toString(opened.takeError()) +
                                   "; trace the model again, or remove the file");
  file = std::move(*opened);
  return Error::success();
}

Expected<const at::Tensor *> WitnessReader::find(const std::string &name) {
  auto known = tensors.find(name);
  if (known != tensors.end())
    return &known->second;
  const plan::TensorEntry *entry = file->find(name);
  if (!entry)
    return nullptr;
  auto mapped = runtime::mappedTensor(file, *entry);
  if (!mapped)
    return damaged("tensor " + name, llvm::toString(mapped.takeError()));
  return &tensors.emplace(name, std::move(*mapped)).first->second;
}

Expected<at::Tensor> WitnessReader::tensor(const std::string &name) {
  auto found = find(name);
  if (!found)
    return found.takeError();
  if (!*found)
    return damaged("", "found no tensor " + name + ", which its description names");
  return **found;
}

/// `float64[2, 3]`.
static std::string typeText(at::ScalarType dtype, llvm::ArrayRef<int64_t> shape) {
  std::string text = plan::nameOf(runtime::dtypeOf(dtype)).str() + "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

Expected<at::Tensor> WitnessReader::tensor(const std::string &name, at::ScalarType dtype,
                                           llvm::ArrayRef<int64_t> shape) {
  auto found = tensor(name);
  if (!found)
    return found.takeError();
  if (found->scalar_type() != dtype || !llvm::equal(found->sizes(), shape))
    return damaged("tensor " + name, "found " + typeText(found->scalar_type(), found->sizes().vec()) +
                                         ", expected " + typeText(dtype, shape));
  return found;
}

//===- Description --------------------------------------------------------===//

Expected<json::Object> WitnessReader::readDescription() {
  auto bytes = tensor("description");
  if (!bytes)
    return bytes.takeError();
  if (bytes->scalar_type() != at::kByte || bytes->dim() != 1 ||
      bytes->numel() > int64_t(kDescription.mostBytes))
    return damaged("tensor description", "found " + typeText(bytes->scalar_type(), bytes->sizes().vec()) +
                                             ", expected uint8[n] with n up to " +
                                             Twine(kDescription.mostBytes));
  const StringRef text(reinterpret_cast<const char *>(bytes->const_data_ptr()), bytes->numel());
  auto value = readJsonText(text, "description", kDescription);
  if (!value)
    return damaged("", llvm::toString(value.takeError()));
  json::Object *object = value->getAsObject();
  if (!object)
    return damaged("description", "found " + describeJson(&*value) + ", expected an object");
  const json::Value *version = object->get("version");
  if (!version || version->getAsInteger() != kVersion)
    return damaged("description", "found version " + describeJson(version) + ", expected " + Twine(kVersion));
  auto model = object->getString("model");
  if (!model)
    return damaged("description",
                   "found model " + describeJson(object->get("model")) + ", expected an id as text");
  result.model = model->str();
  return std::move(*object);
}

/// An empty array where the key is missing.
static const json::Array *arrayOf(const json::Object &object, StringRef key) {
  static const json::Array kEmpty;
  return object.get(key) ? object.getArray(key) : &kEmpty;
}

Error WitnessReader::readWarnings(const json::Object &description) {
  const json::Array *warnings = arrayOf(description, "warnings");
  if (!warnings)
    return damaged("description", "found warnings that are no array");
  for (const json::Value &warning : *warnings) {
    auto text = warning.getAsString();
    if (!text)
      return damaged("description", "found warning " + describeJson(&warning) + ", expected text");
    result.warnings.push_back(text->str());
  }
  return Error::success();
}

Error WitnessReader::readPlaces(const Twine &where, const json::Object &object,
                                WitnessedDimension &dimension) {
  const json::Array *places = object.getArray("dims");
  if (!places || places->empty())
    return damaged(where, "found dims " + describeJson(object.get("dims")) + ", expected at least one");
  for (const json::Value &value : *places) {
    const json::Array *pair = value.getAsArray();
    auto input = pair && pair->size() == 2 ? (*pair)[0].getAsString() : std::nullopt;
    auto dim = pair && pair->size() == 2 ? (*pair)[1].getAsInteger() : std::nullopt;
    if (!input || !dim || *dim < 0 || *dim >= int64_t(kMaxRank))
      return damaged(where, "found dims that are no pairs of an input and the index of a dimension");
    dimension.places.push_back({input->str(), *dim});
  }
  return Error::success();
}

Expected<WitnessedDimension> WitnessReader::readDimension(const Twine &where, const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return damaged(where, "found " + describeJson(&value) + ", expected an object");
  WitnessedDimension dimension;
  if (Error error = readPlaces(where, *object, dimension))
    return error;
  for (auto [key, number] : {std::pair("traced", &dimension.traced),
                             {"min", &dimension.range.min},
                             {"max", &dimension.range.max},
                             {"divisible_by", &dimension.range.divisibleBy}}) {
    auto found = object->getInteger(key);
    if (!found || *found < (number == &dimension.range.divisibleBy ? 1 : 0))
      return damaged(where,
                     Twine("found ") + key + " " + describeJson(object->get(key)) + ", expected a size");
    *number = *found;
  }
  if (!dimension.range.contains(dimension.traced))
    return damaged(where, "found sizes from " + Twine(dimension.range.min) + " to " +
                              Twine(dimension.range.max) + ", multiples of " +
                              Twine(dimension.range.divisibleBy) + ", expected " + Twine(dimension.traced) +
                              " among them, which was traced");
  for (auto [key, text] : {std::pair("below", &dimension.below),
                           {"above", &dimension.above},
                           {"between", &dimension.between},
                           {"where", &dimension.where}}) {
    const json::Value *found = object->get(key);
    if (found && !found->getAsString())
      return damaged(where, Twine("found ") + key + " " + describeJson(found) + ", expected text");
    *text = found ? found->getAsString()->str() : "";
  }
  auto diverges = object->getBoolean("diverges");
  if (!diverges)
    return damaged(where,
                   "found diverges " + describeJson(object->get("diverges")) + ", expected true or false");
  dimension.diverges = *diverges;
  return dimension;
}

Error WitnessReader::readDimensions(const json::Object &description) {
  const json::Array *dimensions = arrayOf(description, "dimensions");
  if (!dimensions)
    return damaged("description", "found dimensions that are no array");
  std::set<std::pair<std::string, int64_t>> known;
  for (auto [index, value] : llvm::enumerate(*dimensions)) {
    auto dimension = readDimension("description: dimensions[" + Twine(index) + "]", value);
    if (!dimension)
      return dimension.takeError();
    for (const WitnessedDimension::Place &place : dimension->places)
      if (!known.insert({place.input, place.dim}).second)
        return damaged("description", "found dimension " + Twine(place.dim) + " of input " + place.input +
                                          " twice, expected it in one group");
    result.dimensions.push_back(std::move(*dimension));
  }
  return Error::success();
}

//===- Witnesses ----------------------------------------------------------===//

template <typename T>
Error WitnessReader::readNumbers(const std::string &name, llvm::ArrayRef<int64_t> shape,
                                 std::vector<T> &numbers) {
  auto found = tensor(name, c10::CppTypeToScalarType<T>::value, shape);
  if (!found)
    return found.takeError();
  const T *first = found->template const_data_ptr<T>();
  numbers.assign(first, first + found->numel());
  return Error::success();
}

Error WitnessReader::readProjection(const std::string &key, WitnessedOutput &output) {
  auto shape = tensor(key + ".shape");
  if (!shape)
    return shape.takeError();
  if (shape->scalar_type() != at::kLong || shape->dim() != 1 || shape->numel() > int64_t(kMaxRank))
    return damaged("tensor " + key + ".shape", "found " +
                                                   typeText(shape->scalar_type(), shape->sizes().vec()) +
                                                   ", expected int64[rank]");
  const int64_t *sizes = shape->const_data_ptr<int64_t>();
  output.shape.assign(sizes, sizes + shape->numel());
  std::optional<int64_t> elements = 1;
  for (int64_t size : output.shape)
    elements = elements && size > 0 ? llvm::checkedMul(*elements, size) : std::nullopt;
  if (!elements || *elements <= kMaxWholeElements)
    return damaged("tensor " + key + ".shape",
                   "found sizes of no tensor with more than " + Twine(kMaxWholeElements) + " elements");
  const llvm::ArrayRef<int64_t> leading(output.shape.data(), leadingDimensions(output.shape));
  std::vector<double> largest;
  if (Error error = readNumbers(key + ".projection", leading, output.sums))
    return error;
  if (Error error = readNumbers(key + ".samples", {int64_t(kProjectionSamples)}, output.samples))
    return error;
  if (Error error = readNumbers(key + ".largest", {}, largest))
    return error;
  output.largest = largest.front();
  auto isFinite = [](double number) { return std::isfinite(number); };
  if (!(output.largest >= 0) || !isFinite(output.largest) || !llvm::all_of(output.sums, isFinite))
    return damaged("tensor " + key + ".projection", "found numbers that are not finite");
  return file->find(key + ".nonfinite") ? readNumbers(key + ".nonfinite", leading, output.nonfinite)
                                        : Error::success();
}

Expected<WitnessedOutput> WitnessReader::readOutput(StringRef name, const std::string &key) {
  WitnessedOutput output;
  output.name = name.str();
  auto whole = find(key);
  if (!whole)
    return whole.takeError();
  if (*whole) {
    output.whole = **whole;
    return output;
  }
  if (!file->find(key + ".shape"))
    return damaged("", "found no tensor " + key + " or " + key + ".shape, which its description names");
  if (Error error = readProjection(key, output))
    return error;
  return output;
}

Expected<Witness> WitnessReader::readWitness(const Twine &where, const json::Value &value) {
  const json::Object *object = value.getAsObject();
  auto name = object ? object->getString("name") : std::nullopt;
  const json::Object *inputs = object ? object->getObject("inputs") : nullptr,
                     *outputs = object ? object->getObject("outputs") : nullptr;
  if (!name || !inputs || !outputs)
    return damaged(where, "found " + describeJson(&value) + " without name, inputs or outputs");
  Witness witness;
  witness.name = name->str();
  for (const auto &[path, key] : *inputs) {
    auto found = key.getAsString()
                     ? tensor(key.getAsString()->str())
                     : Expected<at::Tensor>(damaged(where, "found an input that names no tensor"));
    if (!found)
      return found.takeError();
    witness.inputs.push_back({path.str(), std::move(*found)});
  }
  for (const auto &[path, key] : *outputs) {
    auto found = key.getAsString()
                     ? readOutput(path, key.getAsString()->str())
                     : Expected<WitnessedOutput>(damaged(where, "found an output that names no tensor"));
    if (!found)
      return found.takeError();
    witness.outputs.push_back(std::move(*found));
  }
  // LLVM's objects are hashed.
  llvm::sort(witness.inputs, [](auto &a, auto &b) { return a.name < b.name; });
  llvm::sort(witness.outputs, [](auto &a, auto &b) { return a.name < b.name; });
  return witness;
}

Error WitnessReader::readWitnesses(const json::Object &description) {
  const json::Array *witnesses = arrayOf(description, "witnesses");
  if (!witnesses || witnesses->size() > kMaxWitnesses)
    return damaged("description", "found witnesses " + describeJson(description.get("witnesses")) +
                                      ", expected an array of at most " + Twine(kMaxWitnesses));
  for (auto [index, value] : llvm::enumerate(*witnesses)) {
    auto witness = readWitness("description: witnesses[" + Twine(index) + "]", value);
    if (!witness)
      return witness.takeError();
    result.witnesses.push_back(std::move(*witness));
  }
  return Error::success();
}

Error WitnessReader::checkDimensions() const {
  llvm::StringMap<int64_t> ranks;
  for (const Witness &witness : result.witnesses)
    for (const runtime::NamedTensor &input : witness.inputs) {
      int64_t &rank = ranks.try_emplace(input.name, input.tensor.dim()).first->second;
      rank = std::min(rank, input.tensor.dim());
    }
  for (const WitnessedDimension &dimension : result.dimensions)
    for (const auto &[input, dim] : dimension.places)
      if (auto rank = ranks.find(input); rank != ranks.end() && dim >= rank->second)
        return damaged("description", "found dimension " + Twine(dim) + " of input " + input +
                                          ", expected less than " + Twine(rank->second));
  return Error::success();
}

Expected<WitnessFile> WitnessReader::read() {
  if (Error error = open())
    return error;
  auto description = readDescription();
  if (!description)
    return description.takeError();
  if (Error error = readWarnings(*description))
    return error;
  if (Error error = readDimensions(*description))
    return error;
  if (Error error = readWitnesses(*description))
    return error;
  if (Error error = checkDimensions())
    return error;
  for (const Witness &witness : result.witnesses)
    for (const runtime::NamedTensor &input : witness.inputs)
      result.inputNames.insert(input.name);
  for (const WitnessedDimension &dimension : result.dimensions)
    for (const WitnessedDimension::Place &place : dimension.places)
      result.inputNames.insert(place.input);
  return std::move(result);
}

Expected<WitnessFile> WitnessFile::read(const std::string &path) { return WitnessReader(path).read(); }

const WitnessedDimension *WitnessFile::find(const WitnessedDimension::Place &place) const {
  auto found = llvm::find_if(dimensions, [&](const WitnessedDimension &dimension) {
    return llvm::is_contained(dimension.places, place);
  });
  return found == dimensions.end() ? nullptr : &*found;
}

Expected<FoundWitnesses> findWitnesses(StringRef model, StringRef serializationId) {
  const std::string name = llvm::sys::path::filename(pathBeside(model, "witnesses")).str();
  FoundWitnesses found;
  const std::string path = witnessesBeside(model);
  if (path.empty()) {
    llvm::sys::fs::file_status status;
    if (!llvm::sys::fs::status(pathBeside(model, "witnesses"), status, /*Follow=*/false)) {
      found.unusedReason =
          name + " beside the model is no regular file, and is not used; trace the model again, or remove it";
      return found;
    }
    found.missingReason = "verified against the trace alone: found no file " + name +
                          " beside the model; cleave-trace writes it";
    return found;
  }
  auto file = WitnessFile::read(path);
  if (!file)
    return file.takeError();
  if (serializationId.empty() || file->model != serializationId) {
    found.unusedReason = name + " belongs to another trace than " + llvm::sys::path::filename(model).str() +
                         ", and is not used; trace the model again to have both";
    return found;
  }
  found.file = std::move(*file);
  return found;
}

} // namespace cleave
