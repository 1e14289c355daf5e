//===- PlacementFile.cpp - Placement problems from JSON -------------------===//
#include "partitioner/placement/PlacementFile.h"

#include "codegen/plan/text/JsonText.h"
#include "partitioner/machine/JsonFile.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <cmath>
#include <map>
#include <optional>

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace cleave {

static constexpr size_t kMaxNodes = 20000;
static constexpr size_t kMaxEdges = 200000;
static constexpr JsonFileKind kGraphFile = {"graph", 32 << 20, 1 + kMaxNodes + kMaxEdges};
/// Limit of accelerators and of CPUs.
static constexpr double kMaxOfAKind = 65536;
/// Sums of so many stay finite and precise in a double.
static constexpr double kMaxTime = 1e15;
/// Some files write a large number for no limit.
static constexpr double kMaxSize = 1e30;
/// Costs of one node may be printed with different precision: relative to the larger one.
static constexpr double kSameCost = 1e-6;
/// Limit of the nodes of a cycle that a message names.
static constexpr size_t kMaxNamed = 4;
/// Includes keys that published graphs have for people: names and layers of nodes, sizes of edges.
static const StringRef kGraphKeys[] = {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"},
                       kNodeKeys[] =
                           {"id",   "supportedOnFpga", "isBackwardNode", "cpuLatency", "fpgaLatency",
                            "size", "colorClass",      "name",           "layerId"},
                       kEdgeKeys[] = {"sourceId", "destId", "cost", "size"};

namespace {

/// One entry of the file; its path begins every error.
class Entry {
public:
  /// \param separator  between the entry's path and a key.
  Entry(const json::Object &object, std::string where, const char *separator = ".")
      : object(object), where(std::move(where)), separator(separator) {}

  /// The path of a key.
  std::string at(StringRef key) const { return (where + separator + key).str(); }

  bool has(StringRef key) const { return object.get(key) != nullptr; }

  Expected<double> number(StringRef key, double most) const {
    const json::Value *value = object.get(key);
    const std::optional<double> number = value ? value->getAsNumber() : std::nullopt;
    // Written so that NaN fails.
    if (!number || !(*number >= 0 && *number <= most))
      return makeError("{0}: found {1}, expected a number from 0 to {2}", at(key), describeJson(value),
                       llvm::format("%g", most));
    return *number;
  }

  Expected<uint32_t> count(StringRef key) const {
    Expected<double> read = number(key, kMaxOfAKind);
    if (read && *read != std::floor(*read))
      return makeError("{0}: found {1}, expected a whole number", at(key), plan::numberText(*read));
    if (!read)
      return read.takeError();
    return static_cast<uint32_t>(*read);
  }

  Expected<int64_t> integer(StringRef key) const {
    const json::Value *value = object.get(key);
    const std::optional<int64_t> integer = value ? value->getAsInteger() : std::nullopt;
    if (!integer)
      return makeError("{0}: found {1}, expected an integer of 64 bits", at(key), describeJson(value));
    return *integer;
  }

  Expected<bool> flag(StringRef key) const {
    const json::Value *value = object.get(key);
    if (value && value->getAsBoolean())
      return *value->getAsBoolean();
    const std::optional<int64_t> integer = value ? value->getAsInteger() : std::nullopt;
    if (!integer || (*integer != 0 && *integer != 1))
      return makeError("{0}: found {1}, expected true or false, or 1 or 0", at(key), describeJson(value));
    return *integer == 1;
  }

  const json::Object &object;
  const std::string where;
  const char *const separator;
};

/// Reads the problem, entry by entry.
class Reader {
public:
  explicit Reader(StringRef path) : path(path) {}
  Error read(const json::Value &file);
  PlacementProblem problem;

private:
  Error readArray(const json::Object &object, StringRef key, size_t most,
                  Error (Reader::*readEntry)(const Entry &));
  Error readNode(const Entry &entry);
  Error readEdge(const Entry &entry);
  Expected<uint32_t> nodeOf(const Entry &entry, StringRef key) const;
  uint32_t colourOf(std::optional<int64_t> colour);
  Error checkAcyclic() const;

  const StringRef path;
  /// By id and by colour. Any integer is valid, so DenseMap's two reserved keys may occur.
  std::map<int64_t, uint32_t> nodes, colours;
  uint32_t colourCount = 0;
  /// By node: true if an edge has given its cost.
  std::vector<bool> hasCost;
};

} // namespace

/// Sets `result`, or fails as `read` did.
template <typename Value, typename Result> static Error take(Expected<Value> read, Result &result) {
  if (!read)
    return read.takeError();
  result = *read;
  return Error::success();
}

uint32_t Reader::colourOf(std::optional<int64_t> colour) {
  if (!colour)
    return colourCount++;
  const auto [found, isNew] = colours.try_emplace(*colour, colourCount);
  colourCount += isNew;
  return found->second;
}

Error Reader::readNode(const Entry &entry) {
  PlacementProblem::Node node;
  if (Error error = checkKeys(entry.object, entry.where, {}, kNodeKeys))
    return error;
  if (Error error = take(entry.integer("id"), node.id))
    return error;
  const auto [found, isNew] = nodes.try_emplace(node.id, problem.nodes.size());
  if (!isNew)
    return makeError("{0}: found {1}, which nodes[{2}] has; give each node an id of its own", entry.at("id"),
                     node.id, found->second);
  if (Error error = take(entry.number("fpgaLatency", kMaxTime), node.acceleratorLatency))
    return error;
  if (Error error = take(entry.number("cpuLatency", kMaxTime), node.cpuLatency))
    return error;
  if (Error error = take(entry.flag("supportedOnFpga"), node.isSupported))
    return error;
  if (Error error = take(entry.flag("isBackwardNode"), node.isBackward))
    return error;
  if (entry.has("size"))
    if (Error error = take(entry.number("size", kMaxTime), node.size))
      return error;
  std::optional<int64_t> colour;
  if (entry.has("colorClass"))
    if (Error error = take(entry.integer("colorClass"), colour))
      return error;
  node.colour = colourOf(colour);
  problem.nodes.push_back(node);
  return Error::success();
}

Expected<uint32_t> Reader::nodeOf(const Entry &entry, StringRef key) const {
  Expected<int64_t> id = entry.integer(key);
  if (!id)
    return id.takeError();
  const auto found = nodes.find(*id);
  if (found == nodes.end())
    return makeError("{0}: found {1}, expected the id of a node; add the node or drop the edge",
                     entry.at(key), *id);
  return found->second;
}

Error Reader::readEdge(const Entry &entry) {
  PlacementProblem::Edge edge;
  if (Error error = checkKeys(entry.object, entry.where, {}, kEdgeKeys))
    return error;
  if (Error error = take(nodeOf(entry, "sourceId"), edge.source))
    return error;
  if (Error error = take(nodeOf(entry, "destId"), edge.target))
    return error;
  double cost = 0;
  if (Error error = take(entry.number("cost", kMaxTime), cost))
    return error;
  PlacementProblem::Node &source = problem.nodes[edge.source];
  if (source.isBackward && !problem.nodes[edge.target].isBackward)
    return makeError(
        "{0}: found an edge from the backward node {1} to the forward node {2}, expected none; turn it "
        "around, or correct isBackwardNode",
        entry.where, source.id, problem.nodes[edge.target].id);
  if (hasCost[edge.source] && std::abs(source.cost - cost) > kSameCost * std::max(source.cost, cost))
    return makeError("{0}: found {1}, an earlier edge of node {2} has {3}; give all edges of a node one cost",
                     entry.at("cost"), plan::numberText(cost), source.id, plan::numberText(source.cost));
  if (!hasCost[edge.source])
    source.cost = cost;
  hasCost[edge.source] = true;
  problem.edges.push_back(edge);
  return Error::success();
}

Error Reader::readArray(const json::Object &object, StringRef key, size_t most,
                        Error (Reader::*readEntry)(const Entry &)) {
  const json::Value *value = object.get(key);
  const json::Array *array = value ? value->getAsArray() : nullptr;
  if (!array || array->size() > most)
    return makeError("{0}: {1}: found {2}, expected an array of at most {3} entries", path, key,
                     array ? llvm::formatv("{0} entries", array->size()).str() : describeJson(value), most);
  for (size_t index = 0; index < array->size(); ++index) {
    const json::Object *entry = (*array)[index].getAsObject();
    const std::string where = llvm::formatv("{0}: {1}[{2}]", path, key, index);
    if (!entry)
      return makeError("{0}: found {1}, expected an object", where, describeJson(&(*array)[index]));
    if (Error error = (this->*readEntry)(Entry(*entry, where)))
      return error;
  }
  return Error::success();
}

Error Reader::checkAcyclic() const {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(problem.nodes.size());
  for (auto [source, target] : problem.edges)
    boost::add_edge(source, target, graph);
  std::vector<uint32_t> component(problem.nodes.size());
  const auto index = boost::get(boost::vertex_index, graph);
  boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), index));
  for (auto [source, target] : problem.edges) {
    if (component[source] != component[target])
      continue;
    std::vector<std::string> ids;
    for (uint32_t node = 0; node < component.size() && ids.size() <= kMaxNamed; ++node)
      if (component[node] == component[source])
        ids.push_back(ids.size() == kMaxNamed ? "…" : std::to_string(problem.nodes[node].id));
    return makeError("{0}: edges: found a cycle through node{1} {2}, expected none; drop an edge of it", path,
                     ids.size() == 1 ? "" : "s", llvm::join(ids, ", "));
  }
  return Error::success();
}

Error Reader::read(const json::Value &file) {
  const json::Object *object = file.getAsObject();
  if (!object)
    return makeError("{0}: found {1}, expected an object with nodes and edges", path, describeJson(&file));
  const Entry entry(*object, path.str(), ": ");
  if (Error error = checkKeys(*object, path, {}, kGraphKeys))
    return error;
  if (Error error = take(entry.number("maxSizePerFPGA", kMaxSize), problem.sizeLimit))
    return error;
  if (Error error = take(entry.count("maxFPGAs"), problem.accelerators))
    return error;
  if (Error error = take(entry.count("maxCPUs"), problem.cpus))
    return error;
  if (Error error = readArray(*object, "nodes", kMaxNodes, &Reader::readNode))
    return error;
  hasCost.resize(problem.nodes.size());
  if (Error error = readArray(*object, "edges", kMaxEdges, &Reader::readEdge))
    return error;
  return checkAcyclic();
}

Expected<PlacementProblem> readPlacementFile(StringRef path) {
  Expected<json::Value> file = readJsonFile(path, kGraphFile);
  if (!file)
    return file.takeError();
  Reader reader(path);
  if (Error error = reader.read(*file))
    return error;
  return std::move(reader.problem);
}

} // namespace cleave
