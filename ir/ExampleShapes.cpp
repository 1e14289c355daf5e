//===- ExampleShapes.cpp - Shapes at the example inputs -------------------===//
#include "ir/ExampleShapes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace cleave {

static llvm::StringMap<int64_t> sizesIn(Operation *function, StringRef attribute) {
  llvm::StringMap<int64_t> sizes;
  if (auto table = function->getAttrOfType<DictionaryAttr>(attribute))
    for (NamedAttribute entry : table)
      if (auto size = dyn_cast<IntegerAttr>(entry.getValue()))
        sizes[entry.getName()] = size.getInt();
  return sizes;
}

llvm::StringMap<SizeLimits> limitsOf(Operation *function) {
  llvm::StringMap<SizeLimits> limits;
  if (auto table = function->getAttrOfType<DictionaryAttr>(kSizeLimitsAttr))
    for (NamedAttribute entry : table) {
      auto limit = cast<SizeLimitAttr>(entry.getValue());
      limits[entry.getName()] = {limit.getDivisibleBy(), limit.getMin(), limit.getMax()};
    }
  return limits;
}

void setLimits(Operation *function, const llvm::StringMap<SizeLimits> &limits) {
  MLIRContext *context = function->getContext();
  NamedAttrList table;
  for (const auto &[name, limit] : limits)
    if (limit != SizeLimits())
      table.set(name, SizeLimitAttr::get(context, limit.divisibleBy, limit.min, limit.max));
  if (!table.empty())
    function->setAttr(kSizeLimitsAttr, table.getDictionary(context));
}

ExampleShapes::ExampleShapes(Operation *function) : symbols(sizesIn(function, kSymbolsAttr)) {}

ExampleShapes ExampleShapes::resized(StringRef name, int64_t size) const {
  ExampleShapes other = *this;
  other.symbols[name] = size;
  return other;
}

std::optional<SmallVector<int64_t>> ExampleShapes::evaluate(ArrayRef<std::string> expressions) const {
  SmallVector<int64_t> result;
  for (const std::string &text : expressions) {
    // Fast path: most are numbers or names.
    if (int64_t number; !StringRef(text).getAsInteger(10, number)) {
      result.push_back(number);
    } else if (auto symbol = symbols.find(text); symbol != symbols.end()) {
      result.push_back(symbol->second);
    } else {
      auto dim = SymbolicDim::parse(text);
      auto size = dim ? dim->evaluate(symbols) : std::nullopt;
      if (!size)
        return std::nullopt;
      result.push_back(*size);
    }
  }
  return result;
}

std::optional<SmallVector<int64_t>> ExampleShapes::shapeOf(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return std::nullopt;
  if (type.hasStaticShape())
    return llvm::to_vector(type.getShape());
  auto layout = dyn_cast_or_null<LayoutAttr>(type.getEncoding());
  if (!layout || layout.getDims().empty())
    return std::nullopt;
  return evaluate(layout.getDims());
}

int64_t ExampleShapes::elementsOf(Value value) const {
  auto shape = shapeOf(value);
  if (!shape)
    return 0;
  int64_t count = 1;
  for (int64_t size : *shape)
    count *= size;
  return count;
}

int64_t ExampleShapes::bytesOf(Value value) const {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type ? elementsOf(value) * elementBytes(type.getElementType()) : 0;
}

int64_t elementBytes(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return 2 * elementBytes(complex.getElementType());
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 0;
}

} // namespace cleave
