//===- MachineFile.cpp - Machines from JSON -------------------------------===//
#include "partitioner/MachineFile.h"

#include "codegen/plan/Checksum.h"
#include "partitioner/Failure.h"
#include "partitioner/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

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

static constexpr NumberKey<CollectiveCosts::Measured> kCollectiveNumbers[] = {
    {"latency_seconds", 0, kMostSeconds, &CollectiveCosts::Measured::latencySeconds},
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
  std::vector<StringRef> known(required);
  llvm::append_range(known, optional);
  return failure("{0}: the key {1} is unknown; use {2}", where, describeJson(&key), llvm::join(known, ", "));
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

/// An integer in this range.
static Expected<uint32_t> readCount(const json::Value &value, const Twine &where, uint32_t least, uint32_t most) {
  const std::optional<int64_t> count = value.getAsInteger();
  if (!count || *count < least || *count > most)
    return failure("{0}: found {1}, expected an integer from {2} to {3}", where.str(), describeJson(&value), least, most);
  return *count;
}

static Expected<DeviceSpec> readDevice(const json::Value &value, StringRef where) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return failure("{0}: found {1}, expected an object with a device's figures", where, describeJson(&value));
  if (Error error = checkKeys(*object, where,
                              {"name", "flops_per_second", "memory_bytes_per_second", "operator_seconds"},
                              {"memory_bytes", "threads"}))
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
  if (const json::Value *threads = object->get("threads"))
    if (Error error = readCount(*threads, where + ".threads", 1, kMostThreads).moveInto(device.threads))
      return error;
  return device;
}

/// Whether only the names differ.
static bool areAlike(DeviceSpec a, const DeviceSpec &b) {
  a.name = b.name;
  return a == b;
}

static Error readDevices(const json::Value &value, StringRef path, std::vector<DeviceSpec> &devices) {
  llvm::StringMap<size_t> places;
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
    if (auto [first, isNew] = places.try_emplace(device->name, index); !isNew)
      return failure("{0}.name: found \"{1}\", which is devices[{2}]'s; give each device a name of its own", where,
                     device->name, first->second);
    devices.push_back(std::move(*device));
  }
  return Error::success();
}

//===- Tables -------------------------------------------------------------===//

namespace {
/// What a table of rates is called, and its axes.
struct TableKeys {
  llvm::ArrayRef<StringRef> axes;
  StringRef rate;
};
} // namespace

static const StringRef kProductAxes[] = {"count", "rows", "columns", "depth"}, kByteAxis[] = {"bytes"};
static const TableKeys kByShape = {kProductAxes, "flops_per_second"},
                       kByBytes = {kByteAxis, "bytes_per_second"};
static const StringRef kProductDtypes[] = {"float32", "bfloat16", "float16"};
static constexpr double kMostSize = 1e15;
static constexpr size_t kMostRates = 4096, kLongestOperator = 128;

/// `count` numbers of an array; any number of them for 0.
static Expected<std::vector<double>> readArray(const json::Value *value, const Twine &where, double most,
                                               size_t count) {
  const json::Array *array = value->getAsArray();
  if (!array || array->empty() || array->size() > kMostRates || (count && array->size() != count))
    return failure("{0}: found {1}, expected an array of {2} numbers", where.str(),
                   array ? llvm::formatv("{0} values", array->size()).str() : describeJson(value),
                   count ? std::to_string(count) : "1 to " + std::to_string(kMostRates));
  std::vector<double> numbers;
  for (const json::Value &item : *array) {
    const std::optional<double> number = item.getAsNumber();
    if (!number || !(*number >= 1 && *number <= most))
      return failure("{0}[{1}]: found {2}, expected a number from 1 to {3}", where.str(), numbers.size(),
                     describeJson(&item), json::Value(most));
    numbers.push_back(*number);
  }
  return numbers;
}

/// A table among the keys of `object`.
static Expected<RateTable> readTable(const json::Object &object, StringRef where, const TableKeys &keys) {
  std::vector<std::vector<double>> axes;
  size_t points = 1;
  for (StringRef axis : keys.axes) {
    const std::string at = (where + "." + axis).str();
    auto sizes = readArray(object.get(axis), at, kMostSize, 0);
    if (!sizes)
      return sizes.takeError();
    for (size_t i = 1; i < sizes->size(); ++i)
      if (!((*sizes)[i - 1] < (*sizes)[i]))
        return failure("{0}[{1}]: found {2} after {3}, expected sizes that ascend", at, i,
                       json::Value((*sizes)[i]), json::Value((*sizes)[i - 1]));
    points *= sizes->size();
    if (points > kMostRates)
      return failure("{0}: found a grid of {1} points, expected {2} at most; leave sizes out", at, points,
                     kMostRates);
    axes.push_back(std::move(*sizes));
  }
  auto rates = readArray(object.get(keys.rate), where + "." + keys.rate, kMostRate, points);
  if (!rates)
    return rates.takeError();
  return RateTable(std::move(axes), std::move(*rates));
}

static std::vector<StringRef> keysOf(const TableKeys &table) {
  std::vector<StringRef> keys(table.axes);
  keys.push_back(table.rate);
  return keys;
}

/// The object of a key, or an error that says what it should be.
static Expected<const json::Object *> asObject(const json::Value &value, StringRef where, StringRef what) {
  if (const json::Object *object = value.getAsObject())
    return object;
  return failure("{0}: found {1}, expected an object with {2}", where, describeJson(&value), what);
}

static Expected<RateTable> readWholeTable(const json::Value &value, StringRef where, const TableKeys &keys) {
  auto object = asObject(value, where, llvm::join(keysOf(keys), ", "));
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, where, keysOf(keys)))
    return error;
  return readTable(**object, where, keys);
}

static Error readProducts(const json::Value &value, StringRef where, KernelRates &rates) {
  auto kinds = asObject(value, where, "tables by kind and dtype");
  if (!kinds)
    return kinds.takeError();
  if (Error error = checkKeys(**kinds, where, {},
                              std::vector<StringRef>(std::begin(kProductKinds), std::end(kProductKinds))))
    return error;
  for (auto [index, kind] : llvm::enumerate(kProductKinds)) {
    const json::Value *found = (*kinds)->get(kind);
    if (!found)
      continue;
    const std::string here = (where + "." + kind).str();
    auto dtypes = asObject(*found, here, "tables by dtype");
    if (!dtypes)
      return dtypes.takeError();
    if (Error error = checkKeys(**dtypes, here, {}, kProductDtypes))
      return error;
    for (StringRef dtype : kProductDtypes)
      if (const json::Value *table = (*dtypes)->get(dtype)) {
        auto read = readWholeTable(*table, here + "." + dtype.str(), kByShape);
        if (!read)
          return read.takeError();
        rates.products[{ProductKind(index), dtype.str()}] = std::move(*read);
      }
  }
  return Error::success();
}

static Error readOperators(const json::Value &value, StringRef where, KernelRates &rates) {
  auto object = asObject(value, where, "a table for each operator");
  if (!object)
    return object.takeError();
  std::vector<StringRef> names;
  for (const json::Object::value_type &entry : **object)
    names.push_back(StringRef(entry.first));
  // The object is hashed: in order, the first message is one and the same.
  llvm::sort(names);
  for (StringRef name : names) {
    const json::Value shown(name);
    if (name.empty() || name.size() > kLongestOperator || !llvm::all_of(name, llvm::isPrint))
      return failure("{0}: found an operator {1}, expected a name like aten.gelu", where,
                     describeJson(&shown));
    auto table = readWholeTable(*(*object)->get(name), (where + "." + name).str(), kByBytes);
    if (!table)
      return table.takeError();
    rates.operators[name.str()] = std::move(*table);
  }
  return Error::success();
}

static Error readCollectives(const json::Value &value, StringRef where, size_t devices, CollectiveCosts &costs) {
  auto object = asObject(value, where, "a table for each kind");
  if (!object)
    return object.takeError();
  if (Error error =
          checkKeys(**object, where, {},
                    std::vector<StringRef>(std::begin(kCollectiveKinds), std::end(kCollectiveKinds))))
    return error;
  for (auto [index, kind] : llvm::enumerate(kCollectiveKinds)) {
    const json::Value *found = (*object)->get(kind);
    if (!found)
      continue;
    const std::string here = (where + "." + kind).str();
    auto entry = asObject(*found, here, "latency_seconds, bytes, bytes_per_second");
    if (!entry)
      return entry.takeError();
    if (Error error = checkKeys(**entry, here, {"latency_seconds", "bytes", "bytes_per_second"}, {"ranks"}))
      return error;
    CollectiveCosts::Measured measured;
    if (Error error = readNumbers(**entry, here, kCollectiveNumbers, measured))
      return error;
    measured.ranks = std::max<size_t>(devices, 2);
    if (const json::Value *ranks = (*entry)->get("ranks"))
      if (Error error = readCount(*ranks, here + ".ranks", 2, kMostDevices).moveInto(measured.ranks))
        return error;
    auto table = readTable(**entry, here, kByBytes);
    if (!table)
      return table.takeError();
    measured.bytesPerSecond = std::move(*table);
    costs.of(CollectiveKind(index)) = std::move(measured);
  }
  return Error::success();
}

static Error readNodes(const json::Value &value, StringRef where, size_t devices, std::optional<Machine::Nodes> &nodes) {
  auto object = asObject(value, where, "devices, latency_seconds and bytes_per_second");
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, where, {"devices", "latency_seconds", "bytes_per_second"}))
    return error;
  nodes.emplace();
  // As many as there are: more would be another machine's.
  if (Error error = readCount(*(*object)->get("devices"), where + ".devices", 1, devices).moveInto(nodes->devices))
    return error;
  if (Error error = readNumbers(**object, where, kLinkNumbers, nodes->link))
    return error;
  nodes->collectives = nodes->link;
  return Error::success();
}

//===- Machines -----------------------------------------------------------===//

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

/// The keys that may be left out.
static Error readMeasured(const json::Object &object, StringRef path, Machine &machine) {
  auto rates = std::make_shared<KernelRates>();
  auto where = [&](StringRef key) { return (path + ": " + key).str(); };
  if (const json::Value *products = object.get("products"))
    if (Error error = readProducts(*products, where("products"), *rates))
      return error;
  if (const json::Value *operators = object.get("operators"))
    if (Error error = readOperators(*operators, where("operators"), *rates))
      return error;
  if (const json::Value *memory = object.get("memory"))
    if (Error error = readWholeTable(*memory, where("memory"), kByBytes).moveInto(rates->memory))
      return error;
  if (const json::Value *collectives = object.get("collectives"))
    if (Error error = readCollectives(*collectives, where("collectives"), machine.devices.size(), machine.collectives))
      return error;
  if (const json::Value *nodes = object.get("nodes"))
    if (Error error = readNodes(*nodes, where("nodes"), machine.devices.size(), machine.nodes))
      return error;
  if (!(*rates == KernelRates()))
    for (DeviceSpec &device : machine.devices)
      device.rates = rates;
  return Error::success();
}

Expected<Machine> readMachineFile(StringRef path) {
  Expected<json::Value> value = readJsonFile(path, kMachineFile);
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  if (!object)
    return failure("{0}: found {1}, expected an object with devices and link", path, describeJson(&*value));
  if (Error error = checkKeys(*object, path, {"devices", "link"},
                              {"products", "operators", "memory", "collectives", "nodes"}))
    return error;
  Machine machine;
  if (Error error = readDevices(*object->get("devices"), path, machine.devices))
    return error;
  if (Error error = readLink(*object->get("link"), path, machine.link))
    return error;
  machine.collectives = machine.link;
  if (Error error = readMeasured(*object, path, machine))
    return error;
  return machine;
}

//===- Writing ------------------------------------------------------------===//

static void writeTable(json::Object &object, const RateTable &table, const TableKeys &keys) {
  for (auto [axis, sizes] : llvm::zip(keys.axes, table.axisSizes()))
    object[axis] = json::Array(sizes);
  object[keys.rate] = json::Array(table.allRates());
}

static json::Object tableOf(const RateTable &table, const TableKeys &keys) {
  json::Object object;
  writeTable(object, table, keys);
  return object;
}

static void writeRates(json::Object &object, const KernelRates &rates) {
  json::Object products, operators;
  for (auto &[key, table] : rates.products) {
    StringRef kind = kProductKinds[size_t(key.first)];
    if (!products.get(kind))
      products[kind] = json::Object();
    (*products.getObject(kind))[key.second] = tableOf(table, kByShape);
  }
  for (auto &[name, table] : rates.operators)
    operators[name] = tableOf(table, kByBytes);
  object["products"] = std::move(products);
  object["operators"] = std::move(operators);
  if (!rates.memory.isEmpty())
    object["memory"] = tableOf(rates.memory, kByBytes);
}

std::string machineFileText(const Machine &machine) {
  json::Object object;
  json::Array devices;
  for (const DeviceSpec &device : machine.devices) {
    json::Object entry{{"name", device.name}};
    for (const NumberKey<DeviceSpec> &key : kDeviceNumbers)
      entry[key.key] = device.*key.member;
    if (device.memoryBytes)
      entry["memory_bytes"] = *device.memoryBytes;
    entry["threads"] = device.threads;
    devices.push_back(std::move(entry));
  }
  object["devices"] = std::move(devices);
  auto linkOf = [](const Link &link) {
    return json::Object{{"latency_seconds", link.latencySeconds}, {"bytes_per_second", link.bytesPerSecond}};
  };
  object["link"] = linkOf(machine.link);
  if (machine.nodes) {
    json::Object nodes = linkOf(machine.nodes->link);
    nodes["devices"] = machine.nodes->devices;
    object["nodes"] = std::move(nodes);
  }
  if (machine.devices.front().rates)
    writeRates(object, *machine.devices.front().rates);
  json::Object collectives;
  for (auto [index, kind] : llvm::enumerate(kCollectiveKinds))
    if (auto &measured = machine.collectives.of(CollectiveKind(index))) {
      json::Object entry{{"latency_seconds", measured->latencySeconds}, {"ranks", measured->ranks}};
      writeTable(entry, measured->bytesPerSecond, kByBytes);
      collectives[kind] = std::move(entry);
    }
  if (!collectives.empty())
    object["collectives"] = std::move(collectives);
  return llvm::formatv("{0:2}\n", json::Value(std::move(object)));
}

std::string checksumOf(const Machine &machine) {
  const std::string text = machineFileText(machine);
  return plan::toHex(plan::checksum(llvm::arrayRefFromStringRef(text)));
}

} // namespace cleave
