//===- Microbatch.cpp - A function at the size of a micro-batch -----------===//
#include "partitioner/memory/Microbatch.h"
#include "partitioner/graph/MergedSignatures.h"

using namespace mlir;

namespace cleave {

/// A function's symbols with the batch at the size of the largest micro-batch.
static DictionaryAttr symbolsOfMicrobatch(func::FuncOp function, StringRef batch, int64_t count) {
  const ExampleShapes part = partOfBatch(function, ExampleShapes(function), batch, count);
  NamedAttrList sizes;
  for (NamedAttribute symbol : function->getAttrOfType<DictionaryAttr>(kSymbolsAttr)) {
    auto size = dyn_cast<IntegerAttr>(symbol.getValue());
    sizes.set(symbol.getName(), size ? IntegerAttr::get(size.getType(), part.sizes().lookup(symbol.getName()))
                                     : symbol.getValue());
  }
  return sizes.getDictionary(function.getContext());
}

FailureOr<Microbatch> Microbatch::of(func::FuncOp function, StringRef batch, int64_t count) {
  auto whole = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr);
  const bool isPart = count > 1 && whole;
  if (isPart)
    function->setAttr(kSymbolsAttr, symbolsOfMicrobatch(function, batch, count));
  auto inferred = inferExampleShapes(function);
  ExampleShapes shapes(function);
  if (isPart)
    function->setAttr(kSymbolsAttr, whole);
  if (failed(inferred))
    return failure();
  return Microbatch{std::move(*inferred), std::move(shapes), count > 1};
}

} // namespace cleave
