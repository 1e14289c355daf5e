//===- DiagnosticCollector.h - Diagnostics as an error ----------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_DIAGNOSTICCOLLECTOR_H
#define CLEAVE_TOOLS_DRIVER_BASE_DIAGNOSTICCOLLECTOR_H

#include "ir/Cleave.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// Keeps a context's error diagnostics, each as `module.path: message`, or `line 12: message`.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
            return mlir::success();
          messages.push_back(describe(diagnostic));
          return mlir::success();
        }) {}

  static std::string describe(mlir::Diagnostic &diagnostic) {
    llvm::StringRef path = modulePath(diagnostic.getLocation());
    std::string place = path.empty() ? "" : path.str() + ": ";
    // Of IR that was read as text.
    if (auto at = mlir::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
      place = "line " + std::to_string(at.getLine()) + ": ";
    return place + diagnostic.str();
  }

  bool hasErrors() const { return !messages.empty(); }

  /// The first message, behind `origin`: what follows is mostly its consequence. An error in any case.
  llvm::Error takeError(llvm::StringRef origin) {
    if (messages.empty())
      return llvm::createStringError(
          (origin + ": failed without saying why; this is a defect of cleave").str());
    return llvm::createStringError((origin + ": " + messages.front()).str());
  }

private:
  std::vector<std::string> messages;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_DIAGNOSTICCOLLECTOR_H
