//===- InputOptions.cpp - Example inputs from the command line ------------===//
#include "tools/driver/base/InputOptions.h"
#include "codegen/plan/Safetensors.h"
#include "ir/NearestName.h"
#include "ir/SymbolicDim.h"
#include "runtime/base/DTypes.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

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
  if (names.empty())
    return fail(option + ": found no example inputs, expected those of " + name +
                "; give them with --inputs FILE, or --input " + name + ":DTYPE[SIZES]");
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

//===- Signatures ---------------------------------------------------------===//

/// A letter or `_`, then letters, digits, `_`, `.` and `-`.
static bool isSignatureName(StringRef name) {
  return !name.empty() && (llvm::isAlpha(name[0]) || name[0] == '_') &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-'; });
}

/// `folder/decode.inputs.safetensors`: `decode`.
static StringRef signatureOfFile(StringRef path) {
  StringRef name = llvm::sys::path::filename(path);
  name.consume_back(".safetensors");
  name.consume_back(".inputs");
  return name;
}

llvm::Expected<std::vector<SignatureFile>> readSignatureFiles(llvm::ArrayRef<std::string> texts) {
  std::vector<SignatureFile> files;
  for (StringRef text : texts) {
    auto [name, path] = text.split('=');
    if (path.empty() || !isSignatureName(name)) {
      name = files.empty() ? "forward" : signatureOfFile(text);
      path = text;
    }
    if (!isSignatureName(name))
      return wrongUsage("--inputs " + text + ": found signature name \"" + name +
                        "\", expected letters, digits, _, . and -; give NAME=FILE");
    if (llvm::any_of(files, [&, name = name](auto &file) { return file.signature == name; }))
      return wrongUsage("--inputs " + text + ": a signature " + name +
                        " is given twice; give another name, NAME=FILE");
    files.push_back({name.str(), path.str()});
  }
  return files;
}

/// `decode/ids=batch,seq`: the signature, empty for all of them, and the rest.
static std::pair<StringRef, StringRef> splitSignature(StringRef text) {
  const size_t slash = text.find('/');
  return slash < text.find_first_of(":=") ? text.split('/') : std::pair(StringRef(), text);
}

/// The signatures without inputs, in the order in which options name them.
static llvm::Expected<std::vector<ModelInputs>> readSignatures(const CompileOptions &options) {
  auto files = readSignatureFiles(options.inputsFiles);
  if (!files)
    return files.takeError();
  std::vector<ModelInputs> signatures;
  for (const SignatureFile &file : *files) {
    ModelInputs &inputs = signatures.emplace_back();
    inputs.signature = file.signature;
    if (auto error = readFile(file.path, inputs))
      return error;
  }
  for (StringRef text : options.inputs) {
    const StringRef name = splitSignature(text).first;
    auto isIt = [&](const ModelInputs &inputs) { return inputs.signature == name; };
    if (name.empty() || llvm::any_of(signatures, isIt))
      continue;
    if (!isSignatureName(name))
      return wrongUsage("--input " + text + ": found signature name \"" + name +
                        "\", expected letters, digits, _, . and -");
    signatures.emplace_back().signature = name.str();
  }
  if (signatures.empty())
    signatures.emplace_back();
  return signatures;
}

/// The signature of this name.
static llvm::Expected<ModelInputs *> signatureNamed(llvm::MutableArrayRef<ModelInputs> signatures,
                                                    StringRef name, const llvm::Twine &option) {
  std::vector<std::string> names;
  for (ModelInputs &inputs : signatures) {
    if (inputs.signature == name)
      return &inputs;
    names.push_back(inputs.signature);
  }
  return wrongUsage(option + ": there is no signature " + name +
                    "; signatures are: " + llvm::join(names, ", ") + didYouMean(name, names));
}

static llvm::Error applyInput(StringRef option, StringRef text, ModelInputs &inputs) {
  StringRef name = text.take_until([](char c) { return c == ':' || c == '='; });
  if (isGiven(inputs, name))
    return wrongUsage("--input " + option + ": input " + name + " is given twice");
  // A tensor's colon comes before any equals sign.
  if (text.find('=') < text.find(':')) {
    inputs.scalars.push_back({name.str(), text.drop_front(name.size() + 1).str()});
    return llvm::Error::success();
  }
  auto tensor = parseTensor(text);
  if (!tensor)
    return tensor.takeError();
  inputs.tensors.push_back(std::move(*tensor));
  return llvm::Error::success();
}

/// Applies an option to the signature that it names, or else to all that have its input.
/// \param needsInput  the option is about an input that is there.
static llvm::Error applyTo(llvm::MutableArrayRef<ModelInputs> signatures, StringRef option, StringRef text,
                           bool needsInput, llvm::function_ref<llvm::Error(StringRef, ModelInputs &)> apply) {
  auto [name, rest] = splitSignature(text);
  if (!name.empty()) {
    auto own = signatureNamed(signatures, name, option + " " + text);
    return own ? apply(rest, **own) : own.takeError();
  }
  const StringRef input = rest.split('=').first;
  auto takesIt = [&, input](const ModelInputs &inputs) { return !needsInput || isGiven(inputs, input); };
  // If none has it, the first one tells.
  if (llvm::none_of(signatures, takesIt))
    return apply(rest, signatures.front());
  for (ModelInputs &inputs : signatures)
    if (takesIt(inputs))
      if (auto error = apply(rest, inputs))
        return error;
  return llvm::Error::success();
}

/// `decode=100`.
static llvm::Error applyFrequency(StringRef text, llvm::MutableArrayRef<ModelInputs> signatures) {
  auto [name, number] = text.split('=');
  double frequency = 0;
  if (number.getAsDouble(frequency) || !(frequency > 0) || frequency > 1e9)
    return wrongUsage("--frequency " + text +
                      ": expected SIGNATURE=NUMBER, such as decode=100, with a number above 0, up to 1e9");
  auto own = signatureNamed(signatures, name, "--frequency " + text);
  if (!own)
    return own.takeError();
  (*own)->frequency = frequency;
  return llvm::Error::success();
}

llvm::Expected<std::vector<ModelInputs>> readInputOptions(const CompileOptions &options) {
  auto signatures = readSignatures(options);
  if (!signatures)
    return signatures;
  for (StringRef text : options.inputs)
    if (auto error =
            applyTo(*signatures, "--input", text, /*needsInput=*/false,
                    [&](StringRef own, ModelInputs &inputs) { return applyInput(text, own, inputs); }))
      return error;
  for (StringRef text : options.dynamic)
    if (auto error = applyTo(*signatures, "--dynamic", text, /*needsInput=*/true, applyDynamic))
      return error;
  for (StringRef text : options.roles)
    if (auto error = applyTo(*signatures, "--role", text, /*needsInput=*/true, applyRole))
      return error;
  for (StringRef text : options.frequencies)
    if (auto error = applyFrequency(text, *signatures))
      return error;
  return signatures;
}

/// nameBatch of one signature.
static std::string nameBatchOf(ModelInputs &inputs) {
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

llvm::Expected<std::string> nameBatch(llvm::MutableArrayRef<ModelInputs> signatures) {
  const std::string name = nameBatchOf(signatures.front());
  for (ModelInputs &inputs : signatures.drop_front())
    if (const std::string own = nameBatchOf(inputs); own != name)
      return wrongUsage("--dynamic: the batch of signature " + inputs.signature + " is called " + own +
                        ", that of signature " + signatures.front().signature + " " + name +
                        "; give both one name");
  return name;
}

} // namespace cleave
