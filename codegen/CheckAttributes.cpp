//===- CheckAttributes.cpp - Checks of attributes before emission ---------===//
#include "codegen/CheckAttributes.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/Signature.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

//===- Forms --------------------------------------------------------------===//

static bool isAmount(Attribute attribute) {
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) && number.getInt() >= 0;
}

static bool isString(Attribute attribute) { return isa_and_nonnull<StringAttr>(attribute); }

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

static LogicalResult refuse(func::FuncOp function, StringRef name, Attribute found, const Twine &expected) {
  InFlightDiagnostic error = function.emitError() << name << ": found ";
  if (found)
    error << found;
  else
    error << "none";
  return error << ", expected " << expected;
}

/// Every stage has an entry in the reports of the passes, and stages are numbered in their order.
static LogicalResult checkStages(func::FuncOp function) {
  const int64_t stages = llvm::count_if(function.getBody().getOps<StageOp>(),
                                        [](StageOp stage) { return stage.getPhase() == Phase::Forward; });
  const std::string expected = std::to_string(stages) + " entries, one a stage";
  auto cut = decisionOf<CutAttr>(function);
  // Costs of training are not in the reports.
  const bool trains = std::distance(function.getBody().getOps<StageOp>().begin(),
                                    function.getBody().getOps<StageOp>().end()) > stages;
  if (cut ? cut.getSeconds().size() != stages : !trains)
    return refuse(function, CutAttr::name, cut, expected);
  auto schedule = decisionOf<ScheduleAttr>(function);
  if (schedule && schedule.getMicrobatchSeconds() && schedule.getMicrobatchSeconds().size() != stages)
    return refuse(function, ScheduleAttr::name, schedule, expected);
  int64_t next = 0;
  for (StageOp stage : function.getBody().getOps<StageOp>()) {
    const bool isForward = stage.getPhase() == Phase::Forward;
    if (isForward ? stage.getIndex() != uint64_t(next) : stage.getIndex() >= uint64_t(stages))
      return stage.emitOpError("found stage ")
             << stage.getIndex() << " in place " << next << "; number stages in order";
    next += isForward;
  }
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
  Attribute symbols = function->getAttr(kSymbolsAttr);
  if (symbols && !areSizes(symbols))
    return refuse(function, kSymbolsAttr, symbols, "an i64 of 0 or more for each symbol");
  for (StringRef name : {StringRef(kInputTreeAttr), StringRef(kOutputTreeAttr)})
    if (Attribute tree = function->getAttr(name); !isTree(tree))
      return refuse(function, name, tree, "a tree of arrays that begin with their kind");
  if (auto schedule = decisionOf<ScheduleAttr>(function); schedule && schedule.getBatch())
    if (!symbols || !cast<DictionaryAttr>(symbols).contains(schedule.getBatch()))
      return refuse(function, ScheduleAttr::name, schedule, "the name of a symbol as batch");
  if (failed(checkStages(function)))
    return failure();
  return checkNames(function);
}

} // namespace cleave
