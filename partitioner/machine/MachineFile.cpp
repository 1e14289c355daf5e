//===- MachineFile.cpp - Machines from JSON -------------------------------===//
#include "partitioner/machine/MachineFile.h"

#include "codegen/plan/files/Checksum.h"
#include "ir/NearestName.h"
#include "partitioner/machine/MachineTables.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <limits>

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace cleave {

static constexpr JsonFileKind kMachineFile = {"machine file", 1 << 20, 16 * kMaxDevices};

static constexpr NumberKey<DeviceSpec> kDeviceNumbers[] = {
    {"flops_per_second", 1, kMaxRate, &DeviceSpec::flopsPerSecond},
    {"memory_bytes_per_second", 1, kMaxRate, &DeviceSpec::memoryBytesPerSecond},
    {"operator_seconds", 0, kMaxSeconds, &DeviceSpec::dispatchSeconds},
};
static constexpr NumberKey<Link> kLinkNumbers[] = {
    {"latency_seconds", 0, kMaxSeconds, &Link::latencySeconds},
    {"bytes_per_second", 1, kMaxRate, &Link::bytesPerSecond},
};

static constexpr NumberKey<CollectiveCosts::Measured> kCollectiveNumbers[] = {
    {"latency_seconds", 0, kMaxSeconds, &CollectiveCosts::Measured::latencySeconds},
};

//===- Devices ------------------------------------------------------------===//

namespace {
/// Figures and tables that devices may refer to.
struct DeviceKinds {
  /// By name of the kind; the names inside are empty.
  llvm::StringMap<DeviceSpec> named;
  /// Tables of devices without a kind.
  std::shared_ptr<const KernelRates> rates;
};
} // namespace

static std::vector<StringRef> namesOf(const json::Object &object) {
  std::vector<StringRef> names;
  for (const json::Object::value_type &entry : object)
    names.push_back(StringRef(entry.first));
  // The object is hashed; sorting makes the first message deterministic.
  llvm::sort(names);
  return names;
}

/// Tables give a device's speed whatever its peaks, so devices with different peaks cannot share tables.
static bool contradictTables(const DeviceSpec &a, const DeviceSpec &b) {
  return a.rates && a.hasTablesOf(b) &&
         (a.flopsPerSecond != b.flopsPerSecond || a.memoryBytesPerSecond != b.memoryBytesPerSecond);
}

/// Fails if the tables of a kind repeat those of a kind before.
static Error checkTables(StringRef name, StringRef where, llvm::ArrayRef<StringRef> before,
                         const DeviceKinds &kinds) {
  const DeviceSpec &device = kinds.named.find(name)->second;
  for (StringRef other : before)
    if (contradictTables(device, kinds.named.find(other)->second))
      return makeError(
          "{0}.{1}: its figures differ from those of {2}, but its tables are the same; give each "
          "kind tables of its own",
          where, name, other);
  return Error::success();
}

static Error readKinds(const json::Value &value, StringRef where, DeviceKinds &kinds) {
  auto object = asObject(value, where, "a kind of device for each name");
  if (!object)
    return object.takeError();
  const std::vector<StringRef> names = namesOf(**object);
  for (auto [index, name] : llvm::enumerate(names)) {
    const json::Value shown(name);
    if (auto read = readName(&shown, where + ": the name of a kind"); !read)
      return read.takeError();
    const std::string here = (where + "." + name).str();
    auto kind = asObject(*(*object)->get(name), here, "the figures of devices of this kind");
    if (!kind)
      return kind.takeError();
    if (Error error = checkKeys(
            **kind, here, {"flops_per_second", "memory_bytes_per_second", "operator_seconds"}, kRateKeys))
      return error;
    DeviceSpec &device = kinds.named[name];
    if (Error error = readNumbers(**kind, here, kDeviceNumbers, device))
      return error;
    if (Error error = readRates(**kind, here + ".").moveInto(device.rates))
      return error;
    if (Error error = checkTables(name, where, llvm::ArrayRef(names).take_front(index), kinds))
      return error;
  }
  return Error::success();
}

/// Reads a device's own figures, or takes those of its kind.
static Error readFigures(const json::Object &object, StringRef where, const DeviceKinds &kinds,
                         DeviceSpec &device) {
  const json::Value *kind = object.get("kind");
  if (!kind) {
    device.rates = kinds.rates;
    if (Error error = checkKeys(object, where,
                                {"name", "flops_per_second", "memory_bytes_per_second", "operator_seconds"},
                                {"memory_bytes", "threads"}))
      return error;
    return readNumbers(object, where, kDeviceNumbers, device);
  }
  for (const NumberKey<DeviceSpec> &key : kDeviceNumbers)
    if (const json::Value *own = object.get(key.key))
      return makeError(
          "{0}.{1}: found {2} beside kind {3}, expected one of the two, since kinds give figures; "
          "drop one, or give "
          "this device a kind of its own",
          where, key.key, describeJson(own), describeJson(kind));
  if (Error error = checkKeys(object, where, {"name", "kind"}, {"memory_bytes", "threads"}))
    return error;
  const std::optional<StringRef> name = kind->getAsString();
  if (auto known = kinds.named.find(name.value_or("")); name && known != kinds.named.end()) {
    device = known->second;
    return Error::success();
  }
  std::vector<std::string> names;
  for (const auto &known : kinds.named)
    names.push_back(known.first().str());
  llvm::sort(names);
  return makeError("{0}.kind: found {1}, expected one of \"kinds\"{2}", where, describeJson(kind),
                   names.empty() ? ", of which there are none" : ": " + llvm::join(names, ", "));
}

static Expected<DeviceSpec> readDevice(const json::Value &value, StringRef where, const DeviceKinds &kinds) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return makeError("{0}: found {1}, expected an object with a device's figures", where,
                     describeJson(&value));
  DeviceSpec device;
  if (Error error = readFigures(*object, where, kinds, device))
    return error;
  if (Error error = readName(object->get("name"), where + ".name").moveInto(device.name))
    return error;
  if (const json::Value *bytes = object->get("memory_bytes")) {
    device.memoryBytes = bytes->getAsInteger();
    if (!device.memoryBytes || *device.memoryBytes < 1)
      return makeError(
          "{0}.memory_bytes: found {1}, expected an integer from 1 to {2}; leave the key out where "
          "memory is not limited",
          where, describeJson(bytes), std::numeric_limits<int64_t>::max());
  }
  if (const json::Value *threads = object->get("threads"))
    if (Error error = readCount(*threads, where + ".threads", 1, kMaxThreads).moveInto(device.threads))
      return error;
  return device;
}

static Error readDevices(const json::Value &value, StringRef path, const DeviceKinds &kinds,
                         std::vector<DeviceSpec> &devices) {
  llvm::StringMap<size_t> places;
  const json::Array *array = value.getAsArray();
  if (!array || array->empty() || array->size() > kMaxDevices)
    return makeError("{0}: devices: found {1}, expected an array of 1 to {2} devices", path,
                     array ? llvm::formatv("{0} devices", array->size()).str() : describeJson(&value),
                     kMaxDevices);
  std::optional<size_t> withoutKind;
  for (size_t index = 0; index < array->size(); ++index) {
    const std::string where = llvm::formatv("{0}: devices[{1}]", path, index);
    Expected<DeviceSpec> device = readDevice((*array)[index], where, kinds);
    if (!device)
      return device.takeError();
    if (device->rates == kinds.rates)
      withoutKind = withoutKind.value_or(index);
    if (device->rates == kinds.rates && *withoutKind < index &&
        contradictTables(*device, devices[*withoutKind]))
      return makeError(
          "{0}: its figures differ from those of devices[{1}], but the file's tables are those of "
          "both; give each a "
          "kind with tables of its own",
          where, *withoutKind);
    if (auto [first, isNew] = places.try_emplace(device->name, index); !isNew)
      return makeError("{0}.name: found \"{1}\", which is devices[{2}]'s; give each device a name of its own",
                       where, device->name, first->second);
    devices.push_back(std::move(*device));
  }
  for (const DeviceSpec &device : devices)
    if (withoutKind && device.rates != kinds.rates && contradictTables(device, devices[*withoutKind]))
      return makeError("{0}: devices[{1}]: its figures differ from those of devices[{2}], but the tables of "
                       "its kind are the "
                       "file's; give its kind tables of its own",
                       path, &device - devices.data(), *withoutKind);
  return Error::success();
}

//===- Between devices ----------------------------------------------------===//

static Error readCollective(const json::Value &value, StringRef where, size_t devices,
                            CollectiveCosts::Measured &measured) {
  auto entry = asObject(value, where, "latency_seconds, bytes, bytes_per_second");
  if (!entry)
    return entry.takeError();
  if (Error error = checkKeys(**entry, where, {"latency_seconds", "bytes", "bytes_per_second"}, {"ranks"}))
    return error;
  if (Error error = readNumbers(**entry, where, kCollectiveNumbers, measured))
    return error;
  measured.ranks = std::max<size_t>(devices, 2);
  if (const json::Value *ranks = (*entry)->get("ranks"))
    if (Error error = readCount(*ranks, where + ".ranks", 2, kMaxDevices).moveInto(measured.ranks))
      return error;
  return readTable(**entry, where, kByBytes).moveInto(measured.bytesPerSecond);
}

static Error readCollectives(const json::Value &value, StringRef where, size_t devices,
                             CollectiveCosts &costs) {
  return readByName(value, where, "a table for each kind", kCollectiveKinds,
                    [&](size_t kind, const std::string &here, const json::Value &found) {
                      return readCollective(found, here, devices,
                                            costs.measurementOf(CollectiveKind(kind)).emplace());
                    });
}

static Error readNodes(const json::Value &value, StringRef where, size_t devices,
                       std::optional<Machine::Nodes> &nodes) {
  auto object = asObject(value, where, "devices, latency_seconds and bytes_per_second");
  if (!object)
    return object.takeError();
  if (Error error =
          checkKeys(**object, where, {"devices", "latency_seconds", "bytes_per_second"}, {"collectives"}))
    return error;
  nodes.emplace();
  // At most as many ranks as devices; more would be another machine.
  if (Error error =
          readCount(*(*object)->get("devices"), where + ".devices", 1, devices).moveInto(nodes->devices))
    return error;
  if (Error error = readNumbers(**object, where, kLinkNumbers, nodes->link))
    return error;
  nodes->collectives = nodes->link;
  if (const json::Value *collectives = (*object)->get("collectives"))
    return readCollectives(*collectives, (where + ".collectives").str(), devices, nodes->collectives);
  return Error::success();
}

//===- Machines -----------------------------------------------------------===//

static Error readLink(const json::Value &value, StringRef path, Link &link) {
  const std::string where = llvm::formatv("{0}: link", path);
  const json::Object *object = value.getAsObject();
  if (!object)
    return makeError("{0}: found {1}, expected an object with latency_seconds and bytes_per_second", where,
                     describeJson(&value));
  if (Error error = checkKeys(*object, where, {"latency_seconds", "bytes_per_second"}))
    return error;
  return readNumbers(*object, where, kLinkNumbers, link);
}

/// Reads a device's name; gives its index.
static Expected<uint32_t> readEnd(const json::Value *value, const Twine &where,
                                  llvm::ArrayRef<DeviceSpec> devices) {
  const std::optional<StringRef> name = value->getAsString();
  auto found = llvm::find_if(devices, [&](const DeviceSpec &device) { return name && device.name == *name; });
  if (found != devices.end())
    return found - devices.begin();
  std::vector<std::string> names;
  for (const DeviceSpec &device : devices)
    names.push_back(device.name);
  std::string meant = name ? didYouMean(*name, names) : "";
  if (meant.empty())
    meant = ", such as \"" + names.front() + "\"";
  return makeError("{0}: found {1}, expected the name of a device{2}", where.str(), describeJson(value),
                   meant);
}

static Error readLinkOverride(const json::Value &value, StringRef where, const Machine &machine,
                              std::pair<uint32_t, uint32_t> &ends, Link &link) {
  auto object = asObject(value, where, "from, to, latency_seconds and bytes_per_second");
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, where, {"from", "to", "latency_seconds", "bytes_per_second"}))
    return error;
  if (Error error = readEnd((*object)->get("from"), where + ".from", machine.devices).moveInto(ends.first))
    return error;
  if (Error error = readEnd((*object)->get("to"), where + ".to", machine.devices).moveInto(ends.second))
    return error;
  if (ends.first == ends.second)
    return makeError("{0}: goes from {1} to itself; give two devices", where,
                     describeJson((*object)->get("from")));
  return readNumbers(**object, where, kLinkNumbers, link);
}

static Error readLinkOverrides(const json::Value &value, StringRef where, Machine &machine) {
  const json::Array *array = value.getAsArray();
  if (!array)
    return makeError("{0}: found {1}, expected an array of links between two devices", where,
                     describeJson(&value));
  std::map<std::pair<uint32_t, uint32_t>, size_t> given;
  for (size_t index = 0; index < array->size(); ++index) {
    const std::string here = llvm::formatv("{0}[{1}]", where, index);
    std::pair<uint32_t, uint32_t> ends;
    Link link;
    if (Error error = readLinkOverride((*array)[index], here, machine, ends, link))
      return error;
    if (auto [first, isNew] = given.try_emplace(ends, index); !isNew)
      return makeError("{0}: goes from \"{1}\" to \"{2}\", as links[{3}] does; give each direction once",
                       here, machine.devices[ends.first].name, machine.devices[ends.second].name,
                       first->second);
    machine.linkOverrides[ends] = link;
  }
  // The reverse direction is the same unless it is given.
  for (const auto &[ends, index] : given)
    machine.linkOverrides.try_emplace({ends.second, ends.first}, machine.linkOverrides[ends]);
  // Between nodes, a link as fast as those within a node is an override.
  if (!machine.nodes)
    std::erase_if(machine.linkOverrides, [&](const auto &each) {
      auto back = machine.linkOverrides.find({each.first.second, each.first.first});
      return each.second == machine.link &&
             (back == machine.linkOverrides.end() || back->second == machine.link);
    });
  return Error::success();
}

/// Reads the keys that may be left out.
static Error readBetweenDevices(const json::Object &object, StringRef path, Machine &machine) {
  auto where = [&](StringRef key) { return (path + ": " + key).str(); };
  if (const json::Value *collectives = object.get("collectives"))
    if (Error error =
            readCollectives(*collectives, where("collectives"), machine.devices.size(), machine.collectives))
      return error;
  if (const json::Value *nodes = object.get("nodes"))
    if (Error error = readNodes(*nodes, where("nodes"), machine.devices.size(), machine.nodes))
      return error;
  if (const json::Value *links = object.get("links"))
    return readLinkOverrides(*links, where("links"), machine);
  return Error::success();
}

static Expected<Machine> machineOf(const json::Value &value, StringRef path) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return makeError("{0}: found {1}, expected an object with devices and link", path, describeJson(&value));
  if (Error error = checkKeys(*object, path, {"devices", "link"},
                              {"products", "operators", "memory", "collectives", "nodes", "kinds", "links"}))
    return error;
  DeviceKinds kinds;
  if (Error error = readRates(*object, (path + ": ").str()).moveInto(kinds.rates))
    return error;
  if (const json::Value *named = object->get("kinds"))
    if (Error error = readKinds(*named, (path + ": kinds").str(), kinds))
      return error;
  Machine machine;
  if (Error error = readDevices(*object->get("devices"), path, kinds, machine.devices))
    return error;
  if (Error error = readLink(*object->get("link"), path, machine.link))
    return error;
  machine.collectives = machine.link;
  if (Error error = readBetweenDevices(*object, path, machine))
    return error;
  return machine;
}

Expected<Machine> readMachineFile(StringRef path) {
  Expected<json::Value> value = readJsonFile(path, kMachineFile);
  if (!value)
    return value.takeError();
  return machineOf(*value, path);
}

Expected<Machine> readMachineText(StringRef text, StringRef source) {
  Expected<json::Value> value = readJsonText(text, source, kMachineFile);
  if (!value)
    return value.takeError();
  return machineOf(*value, source);
}

//===- Writing ------------------------------------------------------------===//

static json::Object objectOf(const Link &link) {
  return json::Object{{"latency_seconds", link.latencySeconds}, {"bytes_per_second", link.bytesPerSecond}};
}

static json::Object figuresOf(const DeviceSpec &device) {
  json::Object object;
  for (const NumberKey<DeviceSpec> &key : kDeviceNumbers)
    object[key.key] = device.*key.member;
  return object;
}

/// True if all devices have the same tables.
static bool haveTablesInCommon(const Machine &machine) {
  return llvm::all_of(machine.devices, [&](const DeviceSpec &device) {
    return device.hasTablesOf(machine.devices.front()) && !contradictTables(device, machine.devices.front());
  });
}

static void writeDevices(json::Object &object, const Machine &machine) {
  json::Array devices;
  json::Object kinds;
  // Kinds are named by number, so that their names do not change checksums.
  std::vector<const DeviceSpec *> firsts;
  const bool haveKinds = !haveTablesInCommon(machine);
  for (const DeviceSpec &device : machine.devices) {
    json::Object entry = haveKinds ? json::Object() : figuresOf(device);
    if (haveKinds) {
      auto first =
          llvm::find_if(firsts, [&](const DeviceSpec *other) { return device.computesLike(*other); });
      const std::string kind = llvm::formatv("kind-{0}", first - firsts.begin());
      if (first == firsts.end()) {
        json::Object figures = figuresOf(device);
        if (device.rates)
          writeRates(figures, *device.rates);
        kinds[kind] = std::move(figures);
        firsts.push_back(&device);
      }
      entry["kind"] = kind;
    }
    entry["name"] = device.name;
    if (device.memoryBytes)
      entry["memory_bytes"] = *device.memoryBytes;
    entry["threads"] = device.threads;
    devices.push_back(std::move(entry));
  }
  object["devices"] = std::move(devices);
  if (haveKinds)
    object["kinds"] = std::move(kinds);
  else if (machine.devices.front().rates)
    writeRates(object, *machine.devices.front().rates);
}

static json::Array linkOverridesOf(const Machine &machine) {
  json::Array links;
  for (const auto &[ends, link] : machine.linkOverrides) {
    auto back = machine.linkOverrides.find({ends.second, ends.first});
    // Written with the reverse direction.
    if (ends.first > ends.second && back != machine.linkOverrides.end() && back->second == link)
      continue;
    json::Object entry = objectOf(link);
    entry["from"] = machine.devices[ends.first].name;
    entry["to"] = machine.devices[ends.second].name;
    links.push_back(std::move(entry));
  }
  return links;
}

static void writeCollectives(json::Object &object, const CollectiveCosts &costs) {
  json::Object collectives;
  for (auto [index, kind] : llvm::enumerate(kCollectiveKinds))
    if (auto &measured = costs.measurementOf(CollectiveKind(index))) {
      json::Object entry{{"latency_seconds", measured->latencySeconds}, {"ranks", measured->ranks}};
      writeTable(entry, measured->bytesPerSecond, kByBytes);
      collectives[kind] = std::move(entry);
    }
  if (!collectives.empty())
    object["collectives"] = std::move(collectives);
}

static json::Value valueOf(const Machine &machine) {
  json::Object object;
  writeDevices(object, machine);
  object["link"] = objectOf(machine.link);
  if (machine.nodes) {
    json::Object nodes = objectOf(machine.nodes->link);
    nodes["devices"] = machine.nodes->devices;
    writeCollectives(nodes, machine.nodes->collectives);
    object["nodes"] = std::move(nodes);
  }
  if (!machine.linkOverrides.empty())
    object["links"] = linkOverridesOf(machine);
  writeCollectives(object, machine.collectives);
  return object;
}

std::string machineFileText(const Machine &machine) {
  return plan::jsonText(valueOf(machine), /*indent=*/2) + "\n";
}

std::string checksumOf(const Machine &machine) {
  // With all digits, as in the checksums of older plans, whose machine files had all digits.
  const std::string text = llvm::formatv("{0:2}\n", valueOf(machine));
  return plan::toHex(plan::checksum(llvm::arrayRefFromStringRef(text)));
}

} // namespace cleave
