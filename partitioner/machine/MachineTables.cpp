//===- MachineTables.cpp - Rates from JSON, and back ----------------------===//
#include "partitioner/machine/MachineTables.h"

#include "ir/NearestName.h"
#include "ir/Schemas.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace cleave {

static constexpr size_t kLongestName = 64;

Expected<std::string> readName(const json::Value *value, const Twine &where) {
  const std::optional<StringRef> name = value->getAsString();
  if (!name || name->empty() || name->size() > kLongestName || !llvm::all_of(*name, llvm::isPrint))
    return makeError("{0}: found {1}, expected 1 to {2} printable ASCII characters", where.str(),
                     describeJson(value), kLongestName);
  return name->str();
}

Expected<uint32_t> readCount(const json::Value &value, const Twine &where, uint32_t least, uint32_t most) {
  const std::optional<int64_t> count = value.getAsInteger();
  if (!count || *count < least || *count > most)
    return makeError("{0}: found {1}, expected an integer from {2} to {3}", where.str(), describeJson(&value),
                     least, most);
  return *count;
}

Expected<const json::Object *> asObject(const json::Value &value, StringRef where, StringRef what) {
  if (const json::Object *object = value.getAsObject())
    return object;
  return makeError("{0}: found {1}, expected an object with {2}", where, describeJson(&value), what);
}

Error readByName(
    const json::Value &value, StringRef where, StringRef what, llvm::ArrayRef<llvm::StringLiteral> names,
    llvm::function_ref<Error(size_t index, const std::string &here, const json::Value &found)> read) {
  auto object = asObject(value, where, what);
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, where, {}, std::vector<StringRef>(names.begin(), names.end())))
    return error;
  for (auto [index, name] : llvm::enumerate(names))
    if (const json::Value *found = (*object)->get(name))
      if (Error error = read(index, (where + "." + name).str(), *found))
        return error;
  return Error::success();
}

//===- Reading ------------------------------------------------------------===//

static const StringRef kGemmAxes[] = {"count", "rows", "columns", "depth"}, kByteAxis[] = {"bytes"};
static const TableKeys kByShape = {kGemmAxes, "flops_per_second"};
const TableKeys kByBytes = {kByteAxis, "bytes_per_second"};
static const StringRef kRateKeyNames[] = {"products", "operators", "memory"};
const llvm::ArrayRef<StringRef> kRateKeys = kRateKeyNames;
static constexpr llvm::StringLiteral kGemmDtypes[] = {"float32", "bfloat16", "float16"};
static constexpr double kMaxSize = 1e15;
static constexpr size_t kMaxRates = 4096, kLongestOperator = 128;

/// Reads an array of `count` numbers; of any length if `count` is 0.
static Expected<std::vector<double>> readArray(const json::Value *value, const Twine &where, double most,
                                               size_t count) {
  const json::Array *array = value->getAsArray();
  if (!array || array->empty() || array->size() > kMaxRates || (count && array->size() != count))
    return makeError("{0}: found {1}, expected an array of {2} numbers", where.str(),
                     array ? llvm::formatv("{0} values", array->size()).str() : describeJson(value),
                     count ? std::to_string(count) : "1 to " + std::to_string(kMaxRates));
  std::vector<double> numbers;
  for (const json::Value &item : *array) {
    const std::optional<double> number = item.getAsNumber();
    if (!number || !(*number >= 1 && *number <= most))
      return makeError("{0}[{1}]: found {2}, expected a number from 1 to {3}", where.str(), numbers.size(),
                       describeJson(&item), plan::numberText(most));
    numbers.push_back(*number);
  }
  return numbers;
}

Expected<RateTable> readTable(const json::Object &object, StringRef where, const TableKeys &keys) {
  std::vector<std::vector<double>> axes;
  size_t points = 1;
  for (StringRef axis : keys.axes) {
    const std::string at = (where + "." + axis).str();
    auto sizes = readArray(object.get(axis), at, kMaxSize, 0);
    if (!sizes)
      return sizes.takeError();
    for (size_t i = 1; i < sizes->size(); ++i)
      if (!((*sizes)[i - 1] < (*sizes)[i]))
        return makeError("{0}[{1}]: found {2} after {3}, expected sizes that ascend", at, i,
                         plan::numberText((*sizes)[i]), plan::numberText((*sizes)[i - 1]));
    points *= sizes->size();
    if (points > kMaxRates)
      return makeError("{0}: found a grid of {1} points, expected {2} at most; leave sizes out", at, points,
                       kMaxRates);
    axes.push_back(std::move(*sizes));
  }
  auto rates = readArray(object.get(keys.rate), where + "." + keys.rate, kMaxRate, points);
  if (!rates)
    return rates.takeError();
  return RateTable(std::move(axes), std::move(*rates));
}

static std::vector<StringRef> keysOf(const TableKeys &table) {
  std::vector<StringRef> keys(table.axes);
  keys.push_back(table.rate);
  return keys;
}

static Expected<RateTable> readWholeTable(const json::Value &value, StringRef where, const TableKeys &keys) {
  auto object = asObject(value, where, llvm::join(keysOf(keys), ", "));
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, where, keysOf(keys)))
    return error;
  return readTable(**object, where, keys);
}

static Error readGemms(const json::Value &value, StringRef where, KernelRates &rates) {
  auto readKind = [&](size_t kind, const std::string &ofKind, const json::Value &tables) {
    return readByName(tables, ofKind, "tables by dtype", kGemmDtypes,
                      [&](size_t dtype, const std::string &here, const json::Value &table) {
                        RateTable &rate = rates.gemms[{GemmKind(kind), kGemmDtypes[dtype].str()}];
                        return readWholeTable(table, here, kByShape).moveInto(rate);
                      });
  };
  return readByName(value, where, "tables by kind and dtype", kGemmKinds, readKind);
}

/// Why no operator can have this name; empty if there is one, or a library may still add it.
static std::string obstacleTo(StringRef operatorName) {
  auto [nameSpace, name] = operatorName.split('.');
  auto isWord = [](StringRef text) {
    return !text.empty() && llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  };
  const bool hasOverload = isWord(nameSpace) && isWord(name.split('.').first) && name.contains('.');
  if (hasOverload)
    return ("expected a name without overload, " + nameSpace + "." + name.split('.').first).str();
  if (operatorName.size() > kLongestOperator || !isWord(nameSpace) || !isWord(name))
    return "expected a name like aten.gelu";
  if (hasOperator(nameSpace, name))
    return "";
  const std::vector<std::string> names = operatorNames();
  std::vector<std::string> nameSpaces;
  for (StringRef known : names)
    nameSpaces.push_back(known.split('.').first.str());
  if (!llvm::is_contained(nameSpaces, nameSpace) && didYouMean(nameSpace, nameSpaces).empty())
    return "";
  return "expected one that PyTorch has" + didYouMean(operatorName, names);
}

static Error readOperators(const json::Value &value, StringRef where, KernelRates &rates) {
  auto object = asObject(value, where, "a table for each operator");
  if (!object)
    return object.takeError();
  std::vector<StringRef> names;
  for (const json::Object::value_type &entry : **object)
    names.push_back(StringRef(entry.first));
  // The object is hashed; sorting makes the first message deterministic.
  llvm::sort(names);
  for (StringRef name : names) {
    const json::Value shown(name);
    if (const std::string obstacle = obstacleTo(name); !obstacle.empty())
      return makeError("{0}: found an operator {1}, {2}", where, describeJson(&shown), obstacle);
    auto table = readWholeTable(*(*object)->get(name), (where + "." + name).str(), kByBytes);
    if (!table)
      return table.takeError();
    rates.operators[name.str()] = std::move(*table);
  }
  return Error::success();
}

Expected<std::shared_ptr<const KernelRates>> readRates(const json::Object &object, StringRef where) {
  auto rates = std::make_shared<KernelRates>();
  auto at = [&](StringRef key) { return (where + key).str(); };
  if (const json::Value *gemms = object.get("products"))
    if (Error error = readGemms(*gemms, at("products"), *rates))
      return error;
  if (const json::Value *operators = object.get("operators"))
    if (Error error = readOperators(*operators, at("operators"), *rates))
      return error;
  if (const json::Value *memory = object.get("memory"))
    if (Error error = readWholeTable(*memory, at("memory"), kByBytes).moveInto(rates->otherOperators))
      return error;
  if (*rates == KernelRates())
    return nullptr;
  return rates;
}

//===- Writing ------------------------------------------------------------===//

void writeTable(json::Object &object, const RateTable &table, const TableKeys &keys) {
  for (auto [axis, sizes] : llvm::zip(keys.axes, table.axisSizes()))
    object[axis] = json::Array(sizes);
  object[keys.rate] = json::Array(table.allRates());
}

static json::Object tableOf(const RateTable &table, const TableKeys &keys) {
  json::Object object;
  writeTable(object, table, keys);
  return object;
}

void writeRates(json::Object &object, const KernelRates &rates) {
  json::Object gemms, operators;
  for (auto &[key, table] : rates.gemms) {
    StringRef kind = kGemmKinds[size_t(key.first)];
    if (!gemms.get(kind))
      gemms[kind] = json::Object();
    (*gemms.getObject(kind))[key.second] = tableOf(table, kByShape);
  }
  for (auto &[name, table] : rates.operators)
    operators[name] = tableOf(table, kByBytes);
  object["products"] = std::move(gemms);
  object["operators"] = std::move(operators);
  if (!rates.otherOperators.isEmpty())
    object["memory"] = tableOf(rates.otherOperators, kByBytes);
}

} // namespace cleave
