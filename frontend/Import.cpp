//===- Import.cpp - TorchScript to IR -------------------------------------===//
#include "frontend/Import.h"
#include "frontend/Arguments.h"
#include "frontend/Functionalize.h"
#include "frontend/TorchScriptImporter.h"
#include "ir/TracedShapes.h"

using namespace mlir;

namespace cleave {

/// Sizes of the named dimensions in the examples; the same name must mean the same size.
static LogicalResult setSymbols(func::FuncOp function, Builder &b, const ModelInputs &inputs) {
  NamedAttrList symbols;
  for (const ModelInputs::Tensor &tensor : inputs.tensors)
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      if (tensor.dims[i].empty())
        continue;
      auto size = b.getI64IntegerAttr(tensor.shape[i]);
      auto known = dyn_cast_or_null<IntegerAttr>(symbols.get(tensor.dims[i]));
      if (known && known != size)
        return mlir::emitError(function.getLoc(), "input ")
               << tensor.name << ": dimension " << tensor.dims[i] << " has size " << tensor.shape[i]
               << ", but another input has it with size " << known.getInt() << "; use two names";
      symbols.set(tensor.dims[i], size);
    }
  if (!symbols.empty())
    function->setAttr(kSymbolsAttr, symbols.getDictionary(b.getContext()));
  if (!inputs.opened.empty())
    function->setAttr(kOpenedAttr, b.getStringAttr(inputs.opened));
  return success();
}

static LogicalResult importForward(const TorchScriptFile &file, const ModelInputs &inputs, ImportedModel &model) {
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
  TorchScriptImporter importer(b, model.weights);
  importer.collectWeights(file.module._ivalue(), "");
  auto results = importer.importMethod(file.module._ivalue(), "forward", *arguments);
  if (failed(results) || failed(returnLeaves(function, b, results->front())))
    return failure();
  return functionalize(function);
}

FailureOr<ImportedModel> importTorchScript(const TorchScriptFile &file, const ModelInputs &inputs,
                                           MLIRContext *context) {
  ImportedModel model;
  model.module = ModuleOp::create(NameLoc::get(StringAttr::get(context, "")));
  try {
    if (failed(importForward(file, inputs, model)))
      return failure();
  } catch (const std::exception &e) {
    return mlir::emitError(model.module->getLoc(), "the model cannot be read: ")
           << StringRef(e.what()).split('\n').first;
  }
  return model;
}

} // namespace cleave
