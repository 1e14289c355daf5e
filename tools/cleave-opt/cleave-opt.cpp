//===- cleave-opt.cpp - mlir-opt with Cleave's dialects and passes --------===//
#include "ir/Cleave.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/ToolUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/Passes.h"
#include "tools/cleave-opt/ParseCheck.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"
#include <unistd.h>

using namespace mlir;

namespace {
/// Prints an error as MlirOptMain does.
class Printer : public SourceMgrDiagnosticHandler {
public:
  using SourceMgrDiagnosticHandler::emitDiagnostic;
  using SourceMgrDiagnosticHandler::SourceMgrDiagnosticHandler;
};
} // namespace

/// Ends the program with an error if `text`, or a part of it, does not parse.
static void exitUnlessParses(const llvm::MemoryBuffer &text, const DialectRegistry &registry,
                             const MlirOptMainConfig &config) {
  auto checkPart = [&](std::unique_ptr<llvm::MemoryBuffer> part, llvm::raw_ostream &) {
    auto source = std::make_shared<llvm::SourceMgr>();
    source->AddNewSourceBuffer(std::move(part), llvm::SMLoc());
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    context.allowUnregisteredDialects(config.shouldAllowUnregisteredDialects());
    Printer printer(*source, &context);
    cleave::checkParses(source, context, [&](Diagnostic &diagnostic) {
      printer.emitDiagnostic(diagnostic);
      llvm::errs().flush();
      _exit(EXIT_FAILURE);
    });
    return success();
  };
  (void)splitAndProcessBuffer(llvm::MemoryBuffer::getMemBuffer(text), checkPart, llvm::nulls(),
                              config.inputSplitMarker());
}

static LogicalResult run(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  cleave::registerDialects(registry);
  cleave::registerPasses();
  auto [inputName, outputName] = registerAndParseCLIOptions(argc, argv, "Cleave's pass driver\n", registry);
  const MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldVerifyDiagnostics())
    return MlirOptMain(argc, argv, inputName, outputName, registry);
  std::string message;
  auto input = openInputFile(inputName, &message);
  auto output = input ? openOutputFile(outputName, &message) : nullptr;
  if (!output) {
    llvm::errs() << "error: " << message << "\n";
    return failure();
  }
  if (llvm::Error error = cleave::checkIrText(input->getBuffer())) {
    llvm::errs() << "error: " << inputName << ": " << llvm::toString(std::move(error)) << "\n";
    return failure();
  }
  exitUnlessParses(*input, registry, config);
  if (failed(MlirOptMain(output->os(), std::move(input), registry, config)))
    return failure();
  output->keep();
  return success();
}

int main(int argc, char **argv) { return asMainReturnCode(run(argc, argv)); }
