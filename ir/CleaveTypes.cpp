//===- CleaveTypes.cpp - Types and attributes of the cleave dialect -------===//
#include "ir/Cleave.h"
#include "ir/SymbolicDim.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#define GET_TYPEDEF_CLASSES
#include "ir/CleaveTypes.cpp.inc"

namespace cleave {

static FailureOr<DenseF64ArrayAttr> parseExactNumbers(AsmParser &parser) {
  SmallVector<double> numbers;
  auto parseNumber = [&] { return parser.parseFloat(numbers.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseNumber))
    return failure();
  return DenseF64ArrayAttr::get(parser.getContext(), numbers);
}

static void printExactNumbers(AsmPrinter &printer, DenseF64ArrayAttr numbers) {
  printer << '[';
  llvm::interleaveComma(numbers.asArrayRef(), printer,
                        [&](double number) { printer.printFloat(llvm::APFloat(number)); });
  printer << ']';
}

} // namespace cleave

#define GET_ATTRDEF_CLASSES
#include "ir/CleaveAttrs.cpp.inc"

namespace cleave {

void CleaveDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/CleaveTypes.cpp.inc"
      >();
}

void CleaveDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/CleaveAttrs.cpp.inc"
      >();
}

bool isTensorLike(Type type) {
  if (auto optional = dyn_cast<OptionalType>(type))
    return isTensorLike(optional.getElement());
  return isa<UnknownTensorType, mlir::TensorType>(type);
}

std::string schemaTypeName(Type type) {
  if (auto optional = dyn_cast<OptionalType>(type))
    return schemaTypeName(optional.getElement()) + "?";
  if (auto list = dyn_cast<ListType>(type))
    return schemaTypeName(list.getElement()) + "[]";
  if (auto dict = dyn_cast<DictType>(type))
    return "Dict(" + schemaTypeName(dict.getKey()) + ", " + schemaTypeName(dict.getValue()) + ")";
  if (auto tuple = dyn_cast<TupleType>(type)) {
    std::string items;
    for (Type item : tuple.getTypes())
      items += (items.empty() ? "" : ", ") + schemaTypeName(item);
    return "(" + items + ")";
  }
  return TypeSwitch<Type, std::string>(type)
      .Case<UnknownTensorType, mlir::TensorType>([](Type) { return "Tensor"; })
      .Case<StringType>([](Type) { return "str"; })
      .Case<NumberType>([](Type) { return "Scalar"; })
      .Case<DeviceType>([](Type) { return "Device"; })
      .Case<GeneratorType>([](Type) { return "Generator"; })
      .Case<NoneType>([](Type) { return "NoneType"; })
      .Case<ComplexType>([](Type) { return "complex"; })
      .Case<FloatType>([](Type) { return "float"; })
      .Case<IntegerType>([](IntegerType integer) { return integer.getWidth() == 1 ? "bool" : "int"; })
      .Default([](Type) { return "Any"; });
}

static LogicalResult verifyExpression(function_ref<InFlightDiagnostic()> emitError, StringRef text) {
  auto dim = SymbolicDim::parse(text);
  if (!dim)
    return emitError() << "found \"" << text << "\", expected a size such as \"12*batch + 1\" or \"?\"";
  if (dim->str() != text)
    return emitError() << "found \"" << text << "\", expected its canonical form \"" << dim->str() << "\"";
  return success();
}

LogicalResult DimAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef expression) {
  return verifyExpression(emitError, expression);
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<std::string> dims,
                                 ArrayRef<std::string> strides) {
  for (auto &text : llvm::concat<const std::string>(dims, strides))
    if (failed(verifyExpression(emitError, text)))
      return failure();
  if (dims.empty() && strides.empty())
    return emitError() << "layout says nothing; leave it out";
  return success();
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  for (ArrayRef<std::string> list : {getDims(), getStrides()})
    if (!list.empty() && list.size() != shape.size())
      return emitError() << "layout has " << list.size() << " entries for " << shape.size() << " dimensions";
  for (auto [size, text] : llvm::zip(shape, getDims())) {
    auto known = SymbolicDim::parse(text)->asConstant();
    if (ShapedType::isDynamic(size) ? known.has_value() : known != size)
      return emitError() << "layout says \"" << text << "\" where the shape says "
                         << (ShapedType::isDynamic(size) ? "?" : std::to_string(size));
  }
  return success();
}

static void printList(AsmPrinter &printer, StringRef name, ArrayRef<std::string> list) {
  printer << name << " = [";
  llvm::interleaveComma(list, printer, [&](const std::string &text) { printer.printString(text); });
  printer << "]";
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  if (!getDims().empty())
    printList(printer, "dims", getDims());
  if (!getDims().empty() && !getStrides().empty())
    printer << ", ";
  if (!getStrides().empty())
    printList(printer, "strides", getStrides());
  printer << ">";
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SmallVector<std::string> dims, strides;
  auto parseList = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name != "dims" && name != "strides")
      return parser.emitError(loc, "found '") << name << "', expected dims or strides";
    auto &list = name == "dims" ? dims : strides;
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseString(&list.emplace_back()); });
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseList))
    return {};
  return parser.getChecked<LayoutAttr>(parser.getContext(), dims, strides);
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError, unsigned,
                                   ArrayRef<DenseI64ArrayAttr> ranks) {
  if (ranks.size() < 2)
    return emitError() << "found a sharding over " << ranks.size() << " ranks, expected at least 2";
  for (DenseI64ArrayAttr ranges : ranks) {
    int64_t end = 0;
    if (ranges.size() % 2)
      return emitError() << "found " << ranges.size()
                         << " numbers for a rank, expected pairs of offset and size";
    for (int64_t i = 0; i < ranges.size(); i += 2) {
      if (ranges[i] < end || ranges[i + 1] <= 0)
        return emitError() << "found positions from " << ranges[i] << " on and " << ranges[i + 1]
                           << " of them, expected ranges that ascend";
      end = ranges[i] + ranges[i + 1];
    }
  }
  return success();
}

int64_t ShardingAttr::extentOf(unsigned rank) const {
  int64_t extent = 0;
  for (int64_t i = 1; i < getRanks()[rank].size(); i += 2)
    extent += getRanks()[rank][i];
  return extent;
}

SmallVector<int64_t> ShardingAttr::getExtents() const {
  return llvm::map_to_vector(llvm::seq<unsigned>(0, getRanks().size()),
                             [&](unsigned rank) { return extentOf(rank); });
}

int64_t ShardingAttr::getSize() const {
  int64_t size = 0;
  for (DenseI64ArrayAttr ranges : getRanks())
    if (!ranges.empty())
      size = std::max(size, ranges[ranges.size() - 2] + ranges[ranges.size() - 1]);
  return size;
}

SmallVector<int64_t> ShardingAttr::shapeOf(unsigned rank, ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> part(shape);
  part[getDim()] = extentOf(rank);
  return part;
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<" << getDim();
  for (DenseI64ArrayAttr ranges : getRanks()) {
    printer << ", [";
    llvm::interleaveComma(ranges.asArrayRef(), printer);
    printer << "]";
  }
  printer << ">";
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  unsigned dim;
  SmallVector<DenseI64ArrayAttr> ranks;
  if (parser.parseLess() || parser.parseInteger(dim))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    SmallVector<int64_t> ranges;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parser.parseInteger(ranges.emplace_back()); }))
      return {};
    ranks.push_back(DenseI64ArrayAttr::get(parser.getContext(), ranges));
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(parser.getContext(), dim, ranks);
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, unsigned pp, unsigned dp,
                               unsigned tp) {
  if (pp && dp && tp)
    return success();
  return emitError() << "found an empty mesh axis, expected pp, dp and tp of at least 1";
}

} // namespace cleave
