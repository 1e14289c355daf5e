//===- InputOptions.cpp - Example inputs from the command line ------------===//
#include "tools/driver/base/InputOptions.h"
#include "codegen/plan/Safetensors.h"
#include "ir/NearestName.h"
#include "ir/SymbolicDim.h"
#include "runtime/base/DTypes.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace cleave {

using llvm::StringRef;

static llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// torch's names, and short ones.
static std::optional<at::ScalarType> parseDType(StringRef name) {
  return llvm::StringSwitch<std::optional<at::ScalarType>>(name)
      .Cases("bool", "b1", at::kBool)
      .Cases("uint8", "u8", at::kByte)
      .Cases("int8", "i8", at::kChar)
      .Cases("int16", "i16", at::kShort)
      .Cases("int32", "i32", "int", at::kInt)
      .Cases("int64", "i64", "long", at::kLong)
      .Cases("float16", "f16", "half", at::kHalf)
      .Cases("bfloat16", "bf16", at::kBFloat16)
      .Cases("float32", "f32", "float", at::kFloat)
      .Cases("float64", "f64", "double", at::kDouble)
      .Cases("complex64", "c64", at::kComplexFloat)
      .Default(std::nullopt);
}

/// `ids:i64[4,128]`.
static llvm::Expected<ModelInputs::Tensor> parseTensor(StringRef text) {
  auto [name, type] = text.split(':');
  auto [dtypeName, sizes] = type.split('[');
  auto dtype = parseDType(dtypeName);
  if (name.empty() || !dtype || !sizes.consume_back("]"))
    return wrongUsage("--input " + text +
                      ": expected NAME:DTYPE[SIZES] such as ids:i64[4,128], or NAME=VALUE for a scalar");
  ModelInputs::Tensor tensor{name.str(), *dtype, {}, {}, ""};
  llvm::SmallVector<StringRef> parts;
  sizes.split(parts, ',', -1, /*KeepEmpty=*/!sizes.empty());
  for (StringRef part : parts) {
    int64_t size;
    if (part.trim().getAsInteger(10, size) || size < 0)
      return wrongUsage("--input " + text + ": found size \"" + part + "\", expected a number");
    tensor.shape.push_back(size);
  }
  return tensor;
}

static llvm::Error readFile(StringRef path, ModelInputs &inputs) {
  auto file = plan::SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  for (const plan::TensorEntry &entry : (*file)->entries())
    inputs.tensors.push_back({entry.name, *runtime::scalarTypeOf(entry.dtype), entry.shape, {}, ""});
  return llvm::Error::success();
}

static bool isGiven(const ModelInputs &inputs, StringRef name) {
  auto hasName = [&](const auto &input) { return input.name == name; };
  return llvm::any_of(inputs.tensors, hasName) || llvm::any_of(inputs.scalars, hasName);
}

static llvm::Expected<ModelInputs::Tensor *> inputNamed(ModelInputs &inputs, StringRef name,
                                                        const llvm::Twine &option) {
  std::vector<std::string> names;
  for (auto &tensor : inputs.tensors) {
    if (tensor.name == name)
      return &tensor;
    names.push_back(tensor.name);
  }
  return fail(option + ": there is no input " + name + "; inputs are: " + llvm::join(names, ", ") +
              didYouMean(name, names));
}

/// `ids=batch,seq`.
static llvm::Error applyDynamic(StringRef text, ModelInputs &inputs) {
  auto [name, list] = text.split('=');
  llvm::SmallVector<StringRef> dims;
  list.split(dims, ',');
  auto isNumber = [](StringRef dim) { return !dim.empty() && llvm::all_of(dim, llvm::isDigit); };
  for (StringRef dim : dims)
    if (name.empty() || (dim != "_" && !isNumber(dim) && !isDimName(dim)))
      return wrongUsage("--dynamic " + text + ": found \"" + dim +
                        "\", expected INPUT=NAMES as in ids=batch,seq, a name "
                        "for each dimension, or `_` or the traced size for one that stays");
  auto tensor = inputNamed(inputs, name, "--dynamic " + text);
  if (!tensor)
    return tensor.takeError();
  if (!(*tensor)->dims.empty())
    return wrongUsage("--dynamic " + text + ": the dimensions of " + name +
                      " are named twice; give them in one --dynamic");
  if (dims.size() != (*tensor)->shape.size())
    return fail("--dynamic " + text + ": found " + llvm::Twine(dims.size()) +
                (dims.size() == 1 ? " name" : " names") + ", expected " +
                llvm::Twine((*tensor)->shape.size()) + ", one for each dimension of " + name +
                " (`_` leaves one static)");
  for (auto [dim, size] : llvm::zip(dims, (*tensor)->shape)) {
    if (isNumber(dim) && dim != std::to_string(size))
      return fail("--dynamic " + text + ": found \"" + dim + "\", expected a name, `_`, or the traced size " +
                  llvm::Twine(size));
    (*tensor)->dims.push_back(dim == "_" || isNumber(dim) ? "" : dim.str());
  }
  return llvm::Error::success();
}

static llvm::Error applyRole(StringRef text, ModelInputs &inputs) {
  auto [name, role] = text.split('=');
  if (!llvm::is_contained({"tokens", "attention_mask", "positions", "labels"}, role))
    return wrongUsage("--role " + text + ": found \"" + role +
                      "\", expected INPUT=ROLE with tokens, attention_mask, positions or labels");
  auto tensor = inputNamed(inputs, name, "--role " + text);
  if (!tensor)
    return tensor.takeError();
  (*tensor)->role = role.str();
  return llvm::Error::success();
}

llvm::Expected<ModelInputs> readInputOptions(const CompileOptions &options) {
  ModelInputs inputs;
  if (!options.inputsFile.empty())
    if (auto error = readFile(options.inputsFile, inputs))
      return error;
  for (StringRef text : options.inputs) {
    StringRef name = text.take_until([](char c) { return c == ':' || c == '='; });
    if (isGiven(inputs, name))
      return wrongUsage("--input " + text + ": input " + name + " is given twice");
    // A tensor's colon comes before any equals sign.
    if (text.find('=') < text.find(':')) {
      inputs.scalars.push_back({name.str(), text.drop_front(name.size() + 1).str()});
      continue;
    }
    auto tensor = parseTensor(text);
    if (!tensor)
      return tensor.takeError();
    inputs.tensors.push_back(std::move(*tensor));
  }
  for (StringRef text : options.dynamic)
    if (auto error = applyDynamic(text, inputs))
      return error;
  for (StringRef text : options.roles)
    if (auto error = applyRole(text, inputs))
      return error;
  return inputs;
}

std::string nameBatch(ModelInputs &inputs) {
  const std::string name = "batch";
  ModelInputs::Tensor *first = nullptr;
  for (ModelInputs::Tensor &tensor : inputs.tensors) {
    if (llvm::is_contained(tensor.dims, name))
      return name;
    if (!first && !tensor.shape.empty())
      first = &tensor;
  }
  if (!first)
    return name;
  if (!first->dims.empty() && !first->dims[0].empty())
    return first->dims[0];
  inputs.autoDynamic = name;
  for (ModelInputs::Tensor &tensor : inputs.tensors) {
    if (tensor.shape.empty() || tensor.shape[0] != first->shape[0])
      continue;
    tensor.dims.resize(tensor.shape.size());
    if (tensor.dims[0].empty())
      tensor.dims[0] = name;
  }
  return name;
}

} // namespace cleave
