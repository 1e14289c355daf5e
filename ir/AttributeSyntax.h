//===- AttributeSyntax.h - Lists and numbers in attributes ------*- C++ -*-===//
//
// What the parameters of DecisionAttrs.td are parsed and printed with.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_ATTRIBUTESYNTAX_H
#define CLEAVE_IR_ATTRIBUTESYNTAX_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

namespace cleave {

template <typename Element>
mlir::FailureOr<llvm::SmallVector<Element>> parseList(mlir::AsmParser &parser) {
  llvm::SmallVector<Element> elements;
  auto parseElement = [&]() -> mlir::ParseResult {
    auto element = mlir::FieldParser<Element>::parse(parser);
    if (failed(element))
      return mlir::failure();
    elements.push_back(*element);
    return mlir::success();
  };
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, parseElement))
    return mlir::failure();
  return elements;
}

template <typename Element> void printList(mlir::AsmPrinter &printer, llvm::ArrayRef<Element> elements) {
  printer << "[";
  llvm::interleaveComma(elements, printer,
                        [&](const Element &element) { printer.printStrippedAttrOrType(element); });
  printer << "]";
}
template <> inline void printList<int64_t>(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> elements) {
  printer << "[";
  llvm::interleaveComma(elements, printer, [&](int64_t element) { printer << element; });
  printer << "]";
}

inline mlir::FailureOr<mlir::FloatAttr> parseReal(mlir::AsmParser &parser) {
  mlir::FloatAttr value;
  const mlir::Type type = parser.getBuilder().getF64Type();
  if (parser.parseAttribute(value, type))
    return mlir::failure();
  return mlir::FloatAttr::get(type, value.getValueAsDouble());
}

inline void printReal(mlir::AsmPrinter &printer, double value) { printer.printFloat(llvm::APFloat(value)); }

inline mlir::FailureOr<mlir::DenseF64ArrayAttr> parseReals(mlir::AsmParser &parser) {
  llvm::SmallVector<double> values;
  auto parseValue = [&]() -> mlir::ParseResult {
    auto value = parseReal(parser);
    if (failed(value))
      return mlir::failure();
    values.push_back(value->getValueAsDouble());
    return mlir::success();
  };
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, parseValue))
    return mlir::failure();
  return mlir::DenseF64ArrayAttr::get(parser.getContext(), values);
}

inline void printReals(mlir::AsmPrinter &printer, llvm::ArrayRef<double> values) {
  printer << "[";
  llvm::interleaveComma(values, printer, [&](double value) { printReal(printer, value); });
  printer << "]";
}

} // namespace cleave

#endif // CLEAVE_IR_ATTRIBUTESYNTAX_H
