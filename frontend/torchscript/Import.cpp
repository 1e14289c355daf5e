//===- Import.cpp - TorchScript to IR -------------------------------------===//
#include "frontend/torchscript/Import.h"
#include "frontend/archive/TorchScriptFile.h"
#include "frontend/torchscript/Arguments.h"
#include "frontend/torchscript/Functionalize.h"
#include "frontend/torchscript/TorchScriptImporter.h"
#include "ir/ExampleShapes.h"
#include "ir/Signature.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

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

/// True if the function reads the state besides updating it.
static bool isRead(WriteStateOp update) {
  return llvm::any_of(update.getState()->getUsers(), [&](Operation *user) { return user != update; });
}

/// Moves a state to its first use and its update to the value, since everything between must be in one stage.
static void narrow(ReadStateOp state, WriteStateOp update) {
  Block &block = *state->getBlock();
  Operation *first = block.getTerminator();
  for (Operation *user : state->getUsers())
    if (Operation *here = block.findAncestorOpInBlock(*user); here->isBeforeInBlock(first))
      first = here;
  state->moveBefore(first);
  Operation *maker = update.getValue().getDefiningOp();
  update->moveAfter(maker && state->isBeforeInBlock(maker) ? maker : state);
}

/// Removes states that no function reads or none changes, and from each function those that it does neither.
/// Places the others.
static void placeStates(ModuleOp module) {
  llvm::StringSet<> read, changed;
  module.walk([&](WriteStateOp update) {
    if (isRead(update))
      read.insert(update.getName());
    if (update.getValue() != update.getState().getResult())
      changed.insert(update.getName());
  });
  for (auto function : module.getOps<func::FuncOp>())
    for (WriteStateOp update : llvm::make_early_inc_range(function.getOps<WriteStateOp>())) {
      ReadStateOp state = update.getState();
      const bool isConstant = update.getValue() == state.getResult();
      if (read.contains(state.getName()) && changed.contains(state.getName()) &&
          (isRead(update) || !isConstant)) {
        narrow(state, update);
        continue;
      }
      update.erase();
      if (isConstant)
        state.getResult().replaceAllUsesWith(state.getInitial());
      state.erase();
    }
}

/// Fails if a function reads, as a weight, what another one writes as a state.
static LogicalResult checkStates(ModuleOp module) {
  llvm::StringMap<func::FuncOp> writers;
  module.walk([&](WriteStateOp update) {
    writers.try_emplace(update.getName(), update->getParentOfType<func::FuncOp>());
  });
  WalkResult walk = module.walk([&](ParamOp param) {
    auto writer = writers.find(param.getName());
    auto isInitial = [](Operation *user) { return isa<ReadStateOp>(user); };
    if (writer == writers.end() || llvm::all_of(param->getUsers(), isInitial))
      return WalkResult::advance();
    auto reader = param->getParentOfType<func::FuncOp>();
    if (reader == writer->second)
      return WalkResult::advance();
    param.emitError() << "signature " << writer->second.getName() << " writes " << param.getName()
                      << " in place, and signature " << reader.getName()
                      << " reads it; compile them to plans of their own";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// A weight that a later signature has found by one more name has it in all of them.
static void shareAliases(ModuleOp module, const WeightTable &weights) {
  Builder b(module.getContext());
  module.walk([&](ParamOp param) {
    const WeightTable::Entry *entry = weights.find(param.getName());
    SmallVector<StringRef> aliases(entry->aliases.begin(), entry->aliases.end());
    if (!aliases.empty())
      param.setAliasesAttr(b.getStrArrayAttr(aliases));
  });
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
  auto function = b.create<func::FuncOp>(top, inputs.signature, b.getFunctionType({}, {}));
  if (inputs.frequency != 1)
    function->setAttr(kFrequencyAttr, b.getF64FloatAttr(inputs.frequency));
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
  return functionalize(function, model.weights);
}

static FailureOr<ImportedModel> importOnce(const TorchScriptFile &file, ArrayRef<ModelInputs> signatures,
                                           MutableAttributes &states, MLIRContext *context) {
  ImportedModel model;
  model.module = ModuleOp::create(NameLoc::get(StringAttr::get(context, "")));
  try {
    for (const ModelInputs &inputs : signatures) {
      ScopedDiagnosticHandler naming(context, [&](Diagnostic &diagnostic) {
        if (signatures.size() > 1)
          diagnostic << " (in signature " << inputs.signature << ")";
        return failure();
      });
      if (failed(importForward(file, inputs, states, model)))
        return failure();
    }
    placeStates(*model.module);
    if (signatures.size() > 1) {
      shareAliases(*model.module, model.weights);
      if (failed(checkStates(*model.module)))
        return failure();
    }
  } catch (const std::exception &e) {
    return mlir::emitError(model.module->getLoc(), "the model cannot be read: ")
           << StringRef(e.what()).split('\n').first;
  }
  return model;
}

FailureOr<ImportedModel> importTorchScript(const TorchScriptFile &file, ArrayRef<ModelInputs> signatures,
                                           MLIRContext *context) {
  MutableAttributes states;
  // The import finds the attributes that the programs set; it is then repeated with these as states.
  while (true) {
    const size_t known = states.size();
    std::vector<Diagnostic> diagnostics;
    auto model = [&]() -> FailureOr<ImportedModel> {
      ScopedDiagnosticHandler keep(context, [&](Diagnostic &diagnostic) {
        diagnostics.push_back(std::move(diagnostic));
        return success();
      });
      return importOnce(file, signatures, states, context);
    }();
    if (states.size() > known)
      continue;
    for (Diagnostic &diagnostic : diagnostics)
      context->getDiagEngine().emit(std::move(diagnostic));
    return model;
  }
}

} // namespace cleave
