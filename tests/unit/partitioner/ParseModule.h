//===- ParseModule.h - Functions from text ----------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_PARSEMODULE_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_PARSEMODULE_H

#include "ir/OperatorDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace cleave {

/// Null where the text is no module.
inline mlir::OwningOpRef<mlir::ModuleOp> parseModule(const std::string &text) {
  static mlir::MLIRContext context = [] {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
  }();
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_PARSEMODULE_H
