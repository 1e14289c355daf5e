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

/// Collects error diagnostics of a context, each as `module.path: message`, or `line 12: message`.
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
    // A location in IR that was read as text.
    if (auto at = mlir::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
      place = "line " + std::to_string(at.getLine()) + ": ";
    return place + diagnostic.str();
  }

  bool hasErrors() const { return !messages.empty(); }

  /// The first message, after `origin`: later ones are mostly its consequences. Always an error.
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
