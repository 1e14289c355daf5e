//===- Microbatch.cpp - A function at the size of a micro-batch -----------===//
#include "partitioner/memory/Microbatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

/// A function's symbols with the batch at the size of the largest micro-batch.
static DictionaryAttr symbolsOfMicrobatch(func::FuncOp function, StringRef batch, int64_t count) {
  auto symbols = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr);
  auto size = symbols ? dyn_cast_or_null<IntegerAttr>(symbols.get(batch)) : IntegerAttr();
  if (!size)
    return symbols;
  NamedAttrList sizes(symbols);
  sizes.set(batch, IntegerAttr::get(size.getType(), llvm::divideCeil(size.getInt(), count)));
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
