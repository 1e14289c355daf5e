//===- CheckAttributes.cpp - Checks of attributes before emission ---------===//
#include "codegen/CheckAttributes.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/Signature.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

namespace {
/// True if an attribute, which may be null, has some form.
using Form = bool (*)(Attribute attribute);

struct NamedForm {
  StringRef name;
  Form isSound;
  const char *expected;
};
} // namespace

//===- Forms --------------------------------------------------------------===//

static bool isInteger(Attribute attribute) {
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64);
}

static bool isAmount(Attribute attribute) {
  return isInteger(attribute) && cast<IntegerAttr>(attribute).getInt() >= 0;
}

/// A number of ranks or of micro-batches.
static bool isCount(Attribute attribute) {
  return isAmount(attribute) && cast<IntegerAttr>(attribute).getInt() >= 1 &&
         cast<IntegerAttr>(attribute).getInt() <= 1 << 16;
}

static bool isReal(Attribute attribute) { return isa_and_nonnull<FloatAttr>(attribute); }

static bool isString(Attribute attribute) { return isa_and_nonnull<StringAttr>(attribute); }

static bool areAll(Attribute attribute, Form isSound) {
  auto items = dyn_cast_or_null<ArrayAttr>(attribute);
  return items && llvm::all_of(items, isSound);
}

static bool areEach(Attribute attribute, ArrayRef<Form> forms) {
  auto items = dyn_cast_or_null<ArrayAttr>(attribute);
  return items && items.size() == forms.size() && llvm::all_of(llvm::zip(items, forms), [](auto pair) {
           return std::get<1>(pair)(std::get<0>(pair));
         });
}

static bool areReals(Attribute attribute) { return areAll(attribute, isReal); }
static bool areAmounts(Attribute attribute) { return areAll(attribute, isAmount); }
static bool areStrings(Attribute attribute) { return areAll(attribute, isString); }
static bool isLink(Attribute attribute) { return areEach(attribute, {isReal, isReal}); }
static bool isLinkOverride(Attribute attribute) {
  return areEach(attribute, {isAmount, isAmount, isReal, isReal});
}
static bool areLinkOverrides(Attribute attribute) { return areAll(attribute, isLinkOverride); }

static bool isDimension(Attribute attribute) {
  auto entry = dyn_cast_or_null<DictionaryAttr>(attribute);
  return entry && isString(entry.get("path")) && isAmount(entry.get("parts")) &&
         areStrings(entry.get("weights")) && isAmount(entry.get("sums")) && isAmount(entry.get("gathers"));
}

static bool areDimensions(Attribute attribute) { return areAll(attribute, isDimension); }

static bool areSizes(Attribute attribute) {
  auto table = dyn_cast_or_null<DictionaryAttr>(attribute);
  return table && llvm::all_of(table, [](NamedAttribute entry) { return isAmount(entry.getValue()); });
}

/// A tree as leafTree and nodeTree make it.
static bool isTree(Attribute attribute) {
  if (auto leaf = dyn_cast_or_null<IntegerAttr>(attribute))
    return isAmount(leaf);
  auto parts = dyn_cast_or_null<ArrayAttr>(attribute);
  if (!parts || parts.empty() || !isString(parts[0]))
    return false;
  StringRef kind = cast<StringAttr>(parts[0]).getValue();
  ArrayRef<Attribute> rest = parts.getValue().drop_front();
  if (kind == "fixed")
    return rest.size() == 1;
  if (kind != "dict")
    return llvm::all_of(rest, isTree);
  for (size_t i = 0; i < rest.size(); ++i)
    if (i % 2 == 0 ? !isString(rest[i]) : !isTree(rest[i]))
      return false;
  return rest.size() % 2 == 0;
}

//===- Attributes ---------------------------------------------------------===//

/// Forms of optional attributes.
static constexpr NamedForm kForms[] = {
    {kSymbolsAttr, areSizes, "an i64 of 0 or more for each symbol"},
    {kRanksAttr, isCount, "an i64 from 1 to 65536"},
    {kDataRanksAttr, isCount, "an i64 from 1 to 65536"},
    {kMicrobatchesAttr, isCount, "an i64 from 1 to 65536"},
    {kBatchAttr, isString, "the name of a symbol"},
    {kMicrobatchSecondsAttr, areReals, "an array of seconds"},
    {kLinkAttr, isLink, "[latency, bytes a second]"},
    {kLinkOverridesAttr, areLinkOverrides, "an array of [sender, receiver, latency, bytes a second]"},
    {kDevicesAttr, areStrings, "an array of names"},
    {kThreadsAttr, areAmounts, "an array of i64 of 0 or more"},
    {kMemoryLimitsAttr, areAmounts, "an array of i64 of 0 or more"},
    {kMachineAttr, isString, "a string"},
    {kDimensionsAttr, areDimensions, "an array of {path, parts, weights, sums, gathers}"},
};

/// Forms of required attributes.
static constexpr NamedForm kNeeded[] = {
    {kStageSecondsAttr, areReals, "an array of seconds"},
    {kStageRecvBytesAttr, areAmounts, "an array of i64 of 0 or more"},
    {kInputTreeAttr, isTree, "a tree of arrays that begin with their kind"},
    {kOutputTreeAttr, isTree, "a tree of arrays that begin with their kind"},
};

static LogicalResult refuse(func::FuncOp function, StringRef name, Attribute found, const Twine &expected) {
  InFlightDiagnostic error = function.emitError() << name << ": found ";
  if (found)
    error << found;
  else
    error << "none";
  return error << ", expected " << expected;
}

/// Fails unless each stage has an entry in these, and the index of its position.
static LogicalResult checkStages(func::FuncOp function) {
  const size_t stages = llvm::to_vector(function.getBody().getOps<StageOp>()).size();
  for (StringRef name :
       {StringRef(kStageSecondsAttr), StringRef(kStageRecvBytesAttr), StringRef(kMicrobatchSecondsAttr)})
    if (auto all = function->getAttrOfType<ArrayAttr>(name); all && all.size() != stages)
      return refuse(function, name, all, Twine(stages) + " entries, one a stage");
  for (auto [index, stage] : llvm::enumerate(function.getBody().getOps<StageOp>()))
    if (stage.getIndex() != index)
      return stage.emitOpError("found stage ")
             << stage.getIndex() << " in place " << index << "; number stages in order";
  return success();
}

static LogicalResult checkNames(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (Attribute name = function.getArgAttr(i, kNameAttr); !isString(name))
      return refuse(function, kNameAttr, name, "the name of argument " + Twine(i));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute name = function.getResultAttr(i, kNameAttr); !isString(name))
      return refuse(function, kNameAttr, name, "the name of result " + Twine(i));
  return success();
}

LogicalResult checkAttributes(func::FuncOp function) {
  for (const NamedForm &form : kForms)
    if (Attribute found = function->getAttr(form.name); found && !form.isSound(found))
      return refuse(function, form.name, found, form.expected);
  for (const NamedForm &form : kNeeded)
    if (Attribute found = function->getAttr(form.name); !form.isSound(found))
      return refuse(function, form.name, found, form.expected);
  auto symbols = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr);
  if (auto batch = function->getAttrOfType<StringAttr>(kBatchAttr);
      batch && (!symbols || !symbols.contains(batch)))
    return refuse(function, kBatchAttr, batch, "the name of a symbol");
  if (failed(checkStages(function)))
    return failure();
  return checkNames(function);
}

} // namespace cleave
