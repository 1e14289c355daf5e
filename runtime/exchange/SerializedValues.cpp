//===- SerializedValues.cpp - Serialization of values ---------------------===//
#include "runtime/exchange/SerializedValues.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Values.h"
#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <cstring>
#include <limits>
#include <unistd.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::StringRef;

namespace {
enum class Kind : uint8_t {
  None,
  Tensor,
  Undefined,
  Int,
  Double,
  Complex,
  Bool,
  String,
  Device,
  Tuple,
  List,
  Dict,
  Quantized
};
} // namespace

/// Number of elements from the first to the last one of a tensor.
static int64_t spanOf(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t last = 0, step;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] == 0)
      return 0;
    TORCH_CHECK(
        sizes[dim] > 0 && strides[dim] >= 0 && !__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &step) &&
            !__builtin_add_overflow(last, step, &last) && last < std::numeric_limits<int64_t>::max() / 64,
        "found a tensor of impossible size");
  }
  return last + 1;
}

static int64_t elementsOf(at::IntArrayRef sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    TORCH_CHECK(size >= 0 && !__builtin_mul_overflow(count, size, &count),
                "found a tensor of impossible size");
  return count;
}

uint64_t machineMemory() { return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)); }

/// The first `bytes` of a tensor's memory, as a byte tensor.
static at::Tensor bufferOf(const at::Tensor &tensor, size_t bytes) {
  const int64_t count = int64_t(bytes / tensor.itemsize());
  return tensor.as_strided({count}, {1}, tensor.storage_offset()).view(at::kByte);
}

//===- Out ----------------------------------------------------------------===//

namespace {
class Writer {
public:
  explicit Writer(std::optional<c10::Device> linkDevice) : linkDevice(linkDevice) {}
  SerializedValues outgoing;
  void write(const IValue &value);

private:
  template <typename T> void put(T number) {
    outgoing.header.append(reinterpret_cast<const char *>(&number), sizeof number);
  }
  void put(Kind kind) { put(uint8_t(kind)); }
  void put(StringRef text) {
    put(uint64_t(text.size()));
    outgoing.header += text;
  }
  template <typename Items> void putItems(const Items &items) {
    put(uint64_t(items.size()));
    for (const IValue &item : items)
      write(item);
  }
  void writeTensor(const at::Tensor &tensor);
  void writeQuantized(const at::Tensor &tensor);
  void writeContainer(const IValue &value);

  const std::optional<c10::Device> linkDevice;
};
} // namespace

void Writer::writeTensor(const at::Tensor &given) {
  if (!given.defined())
    return put(Kind::Undefined);
  const bool isQuantized = given.is_quantized(), usesLink = !isQuantized && given.device() == linkDevice;
  TORCH_CHECK(given.layout() == at::kStrided && (given.device().is_cpu() || usesLink), "found a tensor of ",
              given.options(), ", expected one that processes can exchange: dense, on the CPU");
  if (isQuantized)
    return writeQuantized(given);
  const at::Tensor tensor = given.resolve_conj().resolve_neg();
  put(Kind::Tensor);
  put(uint8_t(tensor.scalar_type()));
  put(uint8_t(tensor.unsafeGetTensorImpl()->is_wrapped_number()));
  put(uint8_t(usesLink));
  put(uint64_t(tensor.dim()));
  for (int64_t size : tensor.sizes())
    put(size);
  for (int64_t stride : tensor.strides())
    put(stride);
  // Repeated elements, as of an expanded dimension, are sent once.
  const int64_t span = spanOf(tensor.sizes(), tensor.strides());
  const at::Tensor sent = span <= tensor.numel() ? tensor : tensor.contiguous();
  const size_t bytes = std::min(span, tensor.numel()) * tensor.itemsize();
  if (bytes > 0 && usesLink)
    outgoing.linkBuffers.push_back(bufferOf(sent, bytes));
  else if (bytes > 0)
    outgoing.blocks.push_back({const_cast<void *>(sent.const_data_ptr()), bytes, sent});
}

/// Writes a quantized tensor in row-major order.
void Writer::writeQuantized(const at::Tensor &given) {
  TORCH_CHECK(given.qscheme() == at::kPerTensorAffine,
              "found a tensor with scales by channel, expected one that processes can exchange");
  const at::Tensor tensor = given.contiguous();
  put(Kind::Quantized);
  put(uint8_t(tensor.scalar_type()));
  put(tensor.q_scale());
  put(tensor.q_zero_point());
  put(uint64_t(tensor.dim()));
  for (int64_t size : tensor.sizes())
    put(size);
  if (const size_t bytes = tensor.nbytes())
    outgoing.blocks.push_back({const_cast<void *>(tensor.const_data_ptr()), bytes, tensor});
}

void Writer::writeContainer(const IValue &value) {
  if (value.isTuple()) {
    put(Kind::Tuple);
    return putItems(value.toTupleRef().elements());
  }
  if (value.isList()) {
    put(Kind::List);
    put(StringRef(value.toList().elementType()->str()));
    return putItems(value.toListRef());
  }
  TORCH_CHECK(value.isGenericDict(), "found a ", value.tagKind(),
              ", expected a value that processes can exchange");
  auto dict = value.toGenericDict();
  put(Kind::Dict);
  put(StringRef(dict.keyType()->str() + "," + dict.valueType()->str()));
  std::vector<IValue> items;
  for (const auto &entry : dict) {
    items.push_back(entry.key());
    items.push_back(entry.value());
  }
  putItems(items);
}

void Writer::write(const IValue &value) {
  if (value.isNone())
    return put(Kind::None);
  if (value.isTensor())
    return writeTensor(value.toTensor());
  if (value.isInt()) {
    put(Kind::Int);
    return put(value.toInt());
  }
  if (value.isDouble()) {
    put(Kind::Double);
    return put(value.toDouble());
  }
  if (value.isComplexDouble()) {
    put(Kind::Complex);
    put(value.toComplexDouble().real());
    return put(value.toComplexDouble().imag());
  }
  if (value.isBool()) {
    put(Kind::Bool);
    return put(uint8_t(value.toBool()));
  }
  if (value.isString()) {
    put(Kind::String);
    return put(StringRef(value.toStringRef()));
  }
  if (value.isDevice()) {
    put(Kind::Device);
    return put(StringRef(value.toDevice().str()));
  }
  writeContainer(value);
}

SerializedValues serialize(llvm::ArrayRef<IValue> values, std::optional<c10::Device> linkDevice) {
  Writer writer(linkDevice);
  for (const IValue &value : values)
    writer.write(value);
  TORCH_CHECK(writer.outgoing.header.size() <= kMaxHeader, "found values that take ",
              writer.outgoing.header.size(), " bytes without their tensors, expected at most ", kMaxHeader,
              " for processes to exchange");
  return std::move(writer.outgoing);
}

//===- In -----------------------------------------------------------------===//

class Deserializer::Reader {
public:
  Reader(Deserializer &incoming, StringRef rest, uint64_t bytes, std::optional<c10::Device> linkDevice)
      : incoming(incoming), rest(rest), bytesLeft(bytes), linkDevice(linkDevice) {}
  bool isAtEnd() const { return rest.empty(); }
  IValue read(int depth = 0);

private:
  StringRef bytes(uint64_t count) {
    TORCH_CHECK(count <= rest.size(), "found the values of another process cut off");
    StringRef taken = rest.take_front(count);
    rest = rest.drop_front(count);
    return taken;
  }
  template <typename T> T number() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  StringRef text() { return bytes(number<uint64_t>()); }
  std::vector<IValue> items(int depth) {
    std::vector<IValue> read;
    for (uint64_t left = number<uint64_t>(); left > 0; --left)
      read.push_back(this->read(depth + 1));
    return read;
  }
  std::vector<int64_t> numbers(uint64_t count) {
    std::vector<int64_t> read;
    for (; count > 0; --count)
      read.push_back(number<int64_t>());
    return read;
  }
  std::vector<int64_t> sizes(uint64_t count) {
    TORCH_CHECK(count <= kMaxDims, "found a tensor of ", count, " dimensions, expected at most ", kMaxDims);
    return numbers(count);
  }
  /// Adds a tensor that is yet to be allocated to the limits: its elements, and its span.
  void reserve(int64_t count, int64_t span, size_t layerBytes);
  at::Tensor tensor();
  at::Tensor quantized();
  IValue list(int depth);
  IValue dict(int depth);
  /// Adds the first `bytes` of the memory of `tensor` to the memory to fill.
  void fill(const at::Tensor &tensor, size_t bytes, bool usesLink = false) {
    if (bytes > 0 && usesLink)
      incoming.buffers.push_back(bufferOf(tensor, bytes));
    else if (bytes > 0)
      incoming.memory.push_back({tensor.mutable_data_ptr(), bytes, tensor});
  }

  /// libtorch's own limit.
  static constexpr uint64_t kMaxDims = 64;
  Deserializer &incoming;
  StringRef rest;
  uint64_t bytesLeft;
  /// Gaps between elements are not sent, but take memory.
  uint64_t spanLeft = machineMemory();
  const std::optional<c10::Device> linkDevice;
};

void Deserializer::Reader::reserve(int64_t count, int64_t span, size_t layerBytes) {
  auto take = [&](int64_t elements, uint64_t &left) {
    uint64_t bytes = 0;
    TORCH_CHECK(!__builtin_mul_overflow(uint64_t(elements), layerBytes, &bytes) && bytes <= left,
                "found tensors of more than the ", left, " bytes that are expected");
    left -= bytes;
  };
  take(count, bytesLeft);
  take(span, spanLeft);
}

at::Tensor Deserializer::Reader::tensor() {
  const auto dtype = c10::ScalarType(number<uint8_t>());
  TORCH_CHECK(dtypeOf(dtype) != plan::DType::Unknown, "found a tensor of an unknown element type");
  const bool isWrapped = number<uint8_t>(), usesLink = number<uint8_t>();
  TORCH_CHECK(!usesLink || linkDevice, "found a tensor of a device that this process does not exchange");
  const uint64_t dims = number<uint64_t>();
  const std::vector<int64_t> sizes = this->sizes(dims), strides = numbers(dims);
  const int64_t span = spanOf(sizes, strides), count = elementsOf(sizes);
  reserve(count, span, c10::elementSize(dtype));
  const at::TensorOptions options =
      at::TensorOptions(dtype).device(usesLink ? *linkDevice : c10::Device(c10::kCPU));
  at::Tensor whole = at::empty_strided(sizes, strides, options);
  if (isWrapped)
    whole.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (span <= count) {
    fill(whole, span * whole.itemsize(), usesLink);
    return whole;
  }
  at::Tensor compact = at::empty(sizes, options);
  fill(compact, count * whole.itemsize(), usesLink);
  incoming.spreads.push_back({compact, whole});
  return whole;
}

at::Tensor Deserializer::Reader::quantized() {
  const auto dtype = c10::ScalarType(number<uint8_t>());
  TORCH_CHECK(c10::isQIntType(dtype), "found a quantized tensor of an unknown element type");
  const double scale = number<double>();
  const int64_t zeroPoint = number<int64_t>();
  const std::vector<int64_t> sizes = this->sizes(number<uint64_t>());
  const int64_t count = elementsOf(sizes);
  reserve(count, count, c10::elementSize(dtype));
  at::Tensor whole = at::_empty_affine_quantized(sizes, at::TensorOptions(dtype), scale, zeroPoint);
  fill(whole, whole.nbytes());
  return whole;
}

IValue Deserializer::Reader::list(int depth) {
  auto type = parseType(text());
  if (!type)
    TORCH_CHECK(false, llvm::toString(type.takeError()));
  c10::impl::GenericList list(*type);
  for (IValue &item : items(depth)) {
    checkElement(item, **type);
    list.push_back(std::move(item));
  }
  return list;
}

IValue Deserializer::Reader::dict(int depth) {
  auto types = parseDictTypes(text());
  if (!types)
    TORCH_CHECK(false, llvm::toString(types.takeError()));
  c10::impl::GenericDict dict(types->first, types->second);
  std::vector<IValue> entries = items(depth);
  TORCH_CHECK(entries.size() % 2 == 0, "found a key of a dict without its value");
  checkEntries(entries);
  for (size_t i = 0; i < entries.size(); i += 2) {
    checkElement(entries[i], *types->first);
    checkElement(entries[i + 1], *types->second);
    dict.insert_or_assign(std::move(entries[i]), std::move(entries[i + 1]));
  }
  return dict;
}

IValue Deserializer::Reader::read(int depth) {
  TORCH_CHECK(depth < 100, "found values nested 100 deep, expected fewer");
  switch (Kind(number<uint8_t>())) {
  case Kind::None:
    return {};
  case Kind::Tensor:
    return tensor();
  case Kind::Undefined:
    return at::Tensor();
  case Kind::Int:
    return number<int64_t>();
  case Kind::Double:
    return number<double>();
  case Kind::Complex: {
    const double real = number<double>();
    return c10::complex<double>(real, number<double>());
  }
  case Kind::Bool:
    return bool(number<uint8_t>());
  case Kind::String:
    return text().str();
  case Kind::Device:
    return c10::Device(text().str());
  case Kind::Tuple:
    return c10::ivalue::Tuple::create(items(depth));
  case Kind::List:
    return list(depth);
  case Kind::Dict:
    return dict(depth);
  case Kind::Quantized:
    return quantized();
  }
  TORCH_CHECK(false, "found a value of an unknown kind from another process");
}

Deserializer::Deserializer(StringRef header, SerializedLimits limits, std::optional<c10::Device> linkDevice) {
  TORCH_CHECK(header.size() <= kMaxHeader, "found a header of ", header.size(), " bytes, expected at most ",
              kMaxHeader);
  Reader reader(*this, header, limits.bytes, linkDevice);
  while (!reader.isAtEnd()) {
    TORCH_CHECK(values.size() < limits.values, "found more values than the ", limits.values,
                " that are expected");
    values.push_back(reader.read());
  }
}

void Deserializer::finish(std::vector<IValue> &filled) {
  for (const Spread &spread : spreads)
    spread.whole.copy_(spread.compact);
  for (IValue &value : values)
    filled.push_back(std::move(value));
}

} // namespace cleave::runtime
