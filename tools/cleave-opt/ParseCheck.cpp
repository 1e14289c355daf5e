//===- ParseCheck.cpp - Checks that IR parses -----------------------------===//
#include "tools/cleave-opt/ParseCheck.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace cleave {

void checkParses(const std::shared_ptr<llvm::SourceMgr> &source, MLIRContext &context,
                 llvm::function_ref<void(Diagnostic &)> refuse) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      refuse(diagnostic);
  });
  parseSourceFile<ModuleOp>(source, ParserConfig(&context, /*verifyAfterParse=*/false));
}

} // namespace cleave
