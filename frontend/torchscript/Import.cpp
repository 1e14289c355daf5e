//===- Import.cpp - TorchScript to IR -------------------------------------===//
#include "frontend/torchscript/Import.h"
#include "frontend/archive/TorchScriptFile.h"
#include "frontend/torchscript/Arguments.h"
#include "frontend/torchscript/Functionalize.h"
#include "frontend/torchscript/TorchScriptImporter.h"
#include "ir/ExampleShapes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace cleave {

/// Sets the example sizes of dynamic dimensions; one name must have one size.
static LogicalResult setSymbols(func::FuncOp function, Builder &b, const ModelInputs &inputs) {
  NamedAttrList symbols;
  llvm::StringMap<StringRef> namedIn;
  for (const ModelInputs::Tensor &tensor : inputs.tensors)
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      if (tensor.dims[i].empty())
        continue;
      auto size = b.getI64IntegerAttr(tensor.shape[i]);
      auto known = dyn_cast_or_null<IntegerAttr>(symbols.get(tensor.dims[i]));
      if (known && known != size)
        return mlir::emitError(function.getLoc(), "input ")
               << tensor.name << ": dimension " << tensor.dims[i] << " has size " << tensor.shape[i]
               << ", and size " << known.getInt() << " in " << namedIn[tensor.dims[i]]
               << ", expected one size for a name; use two names";
      namedIn.try_emplace(tensor.dims[i], tensor.name);
      symbols.set(tensor.dims[i], size);
    }
  if (!symbols.empty())
    function->setAttr(kSymbolsAttr, symbols.getDictionary(b.getContext()));
  if (!inputs.autoDynamic.empty())
    function->setAttr(kAutoDynamicAttr, b.getStringAttr(inputs.autoDynamic));
  return success();
}

/// Moves each state to its first use and its update to the value, since everything between must be in one
/// stage. Removes states that are never read or never change.
static void placeStates(func::FuncOp function) {
  for (UpdateOp update : llvm::make_early_inc_range(function.getOps<UpdateOp>())) {
    StateOp state = update.getState();
    bool isRead = llvm::any_of(state->getUsers(), [&](Operation *user) { return user != update; });
    if (update.getValue() == state.getResult() || !isRead) {
      bool isConstant = update.getValue() == state.getResult();
      update.erase();
      if (isConstant)
        state.getResult().replaceAllUsesWith(state.getInitial());
      state.erase();
      continue;
    }
    Block &block = *state->getBlock();
    Operation *first = block.getTerminator();
    for (Operation *user : state->getUsers())
      if (Operation *here = block.findAncestorOpInBlock(*user); here->isBeforeInBlock(first))
        first = here;
    state->moveBefore(first);
    Operation *maker = update.getValue().getDefiningOp();
    update->moveAfter(maker && state->isBeforeInBlock(maker) ? maker : state);
  }
}

/// `states`: see TorchScriptImporter.
static LogicalResult importForward(const TorchScriptFile &file, const ModelInputs &inputs,
                                   MutableAttributes &states, ImportedModel &model) {
  MLIRContext *context = model.module->getContext();
  OpBuilder b(context);
  b.setInsertionPointToEnd(model.module->getBody());
  Location top = NameLoc::get(b.getStringAttr(""));
  auto method = file.module.find_method("forward");
  if (!method)
    return mlir::emitError(top, "the model has no forward method; expected a traced or scripted module");
  auto function = b.create<func::FuncOp>(top, "forward", b.getFunctionType({}, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  auto arguments = makeArguments(function, b, method->function().getSchema(), inputs);
  if (failed(arguments) || failed(setSymbols(function, b, inputs)))
    return failure();
  TorchScriptImporter importer(b, model.weights, states);
  importer.collectWeights(file.module._ivalue(), "");
  auto results = importer.importMethod(file.module._ivalue(), "forward", *arguments);
  if (failed(results) || failed(returnLeaves(function, b, results->front())))
    return failure();
  if (llvm::Error error = model.weights.checkSize(file.size))
    return mlir::emitError(top) << llvm::toString(std::move(error));
  if (failed(functionalize(function, model.weights)))
    return failure();
  placeStates(function);
  return success();
}

static FailureOr<ImportedModel> importOnce(const TorchScriptFile &file, const ModelInputs &inputs,
                                           MutableAttributes &states, MLIRContext *context) {
  ImportedModel model;
  model.module = ModuleOp::create(NameLoc::get(StringAttr::get(context, "")));
  try {
    if (failed(importForward(file, inputs, states, model)))
      return failure();
  } catch (const std::exception &e) {
    return mlir::emitError(model.module->getLoc(), "the model cannot be read: ")
           << StringRef(e.what()).split('\n').first;
  }
  return model;
}

FailureOr<ImportedModel> importTorchScript(const TorchScriptFile &file, const ModelInputs &inputs,
                                           MLIRContext *context) {
  MutableAttributes states;
  // The import finds the attributes that the program sets; it is then repeated with these as states.
  while (true) {
    const size_t known = states.size();
    std::vector<Diagnostic> diagnostics;
    auto model = [&]() -> FailureOr<ImportedModel> {
      ScopedDiagnosticHandler keep(context, [&](Diagnostic &diagnostic) {
        diagnostics.push_back(std::move(diagnostic));
        return success();
      });
      return importOnce(file, inputs, states, context);
    }();
    if (states.size() > known)
      continue;
    for (Diagnostic &diagnostic : diagnostics)
      context->getDiagEngine().emit(std::move(diagnostic));
    return model;
  }
}

} // namespace cleave
