//===- MachineFile.cpp - Machines from JSON -------------------------------===//
#include "partitioner/MachineFile.h"

#include "partitioner/Failure.h"
#include "partitioner/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace cleave {

static constexpr JsonFileKind kMachineFile = {"machine file", 1 << 20, 4 * kMostDevices};
static constexpr size_t kLongestName = 64;

namespace {

/// A key of an object that becomes a member of a `Struct`. The ranges leave room for products and quotients
/// of the figures to stay finite.
template <typename Struct> struct NumberKey {
  const char *key;
  double least, most;
  double Struct::*member;
};

} // namespace

static constexpr double kMostRate = 1e21;
static constexpr double kMostSeconds = 1000;

static constexpr NumberKey<DeviceSpec> kDeviceNumbers[] = {
    {"flops_per_second", 1, kMostRate, &DeviceSpec::flopsPerSecond},
    {"memory_bytes_per_second", 1, kMostRate, &DeviceSpec::memoryBytesPerSecond},
    {"operator_seconds", 0, kMostSeconds, &DeviceSpec::operatorSeconds},
};
static constexpr NumberKey<Link> kLinkNumbers[] = {
    {"latency_seconds", 0, kMostSeconds, &Link::latencySeconds},
    {"bytes_per_second", 1, kMostRate, &Link::bytesPerSecond},
};

/// The keys of `object` are `required` and perhaps some of `optional`.
static Error checkKeys(const json::Object &object, StringRef where, llvm::ArrayRef<StringRef> required,
                       llvm::ArrayRef<StringRef> optional = {}) {
  for (StringRef key : required)
    if (!object.get(key))
      return failure("{0}: the key \"{1}\" is missing; keys that must be there: {2}", where, key,
                     llvm::join(required, ", "));
  const json::Object::value_type *unknown = nullptr;
  for (const json::Object::value_type &entry : object) {
    StringRef key = entry.first;
    // The object is hashed: the smallest name makes the message one and the same.
    if (!llvm::is_contained(required, key) && !llvm::is_contained(optional, key) &&
        (!unknown || key < StringRef(unknown->first)))
      unknown = &entry;
  }
  if (!unknown)
    return Error::success();
  const json::Value key(StringRef(unknown->first));
  std::string known = llvm::join(required, ", ");
  if (!optional.empty())
    known += ", " + llvm::join(optional, ", ");
  return failure("{0}: the key {1} is unknown; use {2}", where, describeJson(&key), known);
}

template <typename Struct, size_t N>
static Error readNumbers(const json::Object &object, StringRef where, const NumberKey<Struct> (&keys)[N],
                         Struct &result) {
  for (const NumberKey<Struct> &key : keys) {
    const json::Value *value = object.get(key.key);
    const std::optional<double> number = value->getAsNumber();
    // Written so that NaN fails.
    if (!number || !(*number >= key.least && *number <= key.most))
      return failure("{0}.{1}: found {2}, expected a number from {3} to {4}", where, key.key,
                     describeJson(value), json::Value(key.least), json::Value(key.most));
    result.*key.member = *number;
  }
  return Error::success();
}

static Expected<DeviceSpec> readDevice(const json::Value &value, StringRef where) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return failure("{0}: found {1}, expected an object with a device's figures", where, describeJson(&value));
  if (Error error = checkKeys(*object, where,
                              {"name", "flops_per_second", "memory_bytes_per_second", "operator_seconds"},
                              {"memory_bytes"}))
    return error;
  DeviceSpec device;
  if (Error error = readNumbers(*object, where, kDeviceNumbers, device))
    return error;
  const std::optional<StringRef> name = object->getString("name");
  if (!name || name->empty() || name->size() > kLongestName || !llvm::all_of(*name, llvm::isPrint))
    return failure("{0}.name: found {1}, expected 1 to {2} printable ASCII characters", where,
                   describeJson(object->get("name")), kLongestName);
  device.name = name->str();
  if (const json::Value *bytes = object->get("memory_bytes")) {
    device.memoryBytes = bytes->getAsInteger();
    if (!device.memoryBytes || *device.memoryBytes < 1)
      return failure("{0}.memory_bytes: found {1}, expected an integer, 1 or more; leave the key out where "
                     "memory is not limited",
                     where, describeJson(bytes));
  }
  return device;
}

/// Whether only the names differ.
static bool areAlike(DeviceSpec a, const DeviceSpec &b) {
  a.name = b.name;
  return a == b;
}

static Error readDevices(const json::Value &value, StringRef path, std::vector<DeviceSpec> &devices) {
  const json::Array *array = value.getAsArray();
  if (!array || array->empty() || array->size() > kMostDevices)
    return failure("{0}: devices: found {1}, expected an array of 1 to {2} devices", path,
                   array ? llvm::formatv("{0} devices", array->size()).str() : describeJson(&value),
                   kMostDevices);
  for (size_t index = 0; index < array->size(); ++index) {
    const std::string where = llvm::formatv("{0}: devices[{1}]", path, index);
    Expected<DeviceSpec> device = readDevice((*array)[index], where);
    if (!device)
      return device.takeError();
    // TODO: goes when the stage cutter takes a device a stage.
    if (!devices.empty() && !areAlike(*device, devices.front()))
      return failure("{0}: its figures differ from those of devices[0]; devices must be alike, so give each "
                     "the slowest one's figures",
                     where);
    devices.push_back(std::move(*device));
  }
  return Error::success();
}

static Error readLink(const json::Value &value, StringRef path, Link &link) {
  const std::string where = llvm::formatv("{0}: link", path);
  const json::Object *object = value.getAsObject();
  if (!object)
    return failure("{0}: found {1}, expected an object with latency_seconds and bytes_per_second", where,
                   describeJson(&value));
  if (Error error = checkKeys(*object, where, {"latency_seconds", "bytes_per_second"}))
    return error;
  return readNumbers(*object, where, kLinkNumbers, link);
}

Expected<Machine> readMachineFile(StringRef path) {
  Expected<json::Value> value = readJsonFile(path, kMachineFile);
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  if (!object)
    return failure("{0}: found {1}, expected an object with devices and link", path, describeJson(&*value));
  if (Error error = checkKeys(*object, path, {"devices", "link"}))
    return error;
  Machine machine;
  if (Error error = readDevices(*object->get("devices"), path, machine.devices))
    return error;
  if (Error error = readLink(*object->get("link"), path, machine.link))
    return error;
  return machine;
}

} // namespace cleave
