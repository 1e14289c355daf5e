//===- FuzzIr.cpp - IR as text --------------------------------------------===//
//
// A case is text as cleave-opt takes it: refused, or a module that prints to text which parses to the same.
// It runs in a process of its own since a text that does not parse ends cleave-opt (`checkParses`).
//
//===----------------------------------------------------------------------===//
#include "ir/Cleave.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tests/fuzz/Fuzz.h"
#include "tools/cleave-opt/ParseCheck.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace cleave::fuzz {

/// The modules of the pass tests, including the invalid ones.
std::vector<std::string> seeds() {
  std::vector<std::string> modules;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator file(CLEAVE_LIT_FOLDER, error), end; !error && file != end;
       file.increment(error)) {
    if (!StringRef(file->path()).ends_with(".mlir"))
      continue;
    auto buffer = llvm::MemoryBuffer::getFile(file->path());
    promise(bool(buffer), file->path());
    SmallVector<StringRef> parts;
    (*buffer)->getBuffer().split(parts, "// -----");
    for (StringRef part : parts)
      modules.push_back(part.str());
  }
  promise(!error && !modules.empty(), "pass tests in " CLEAVE_LIT_FOLDER);
  // Directory order is unspecified.
  llvm::sort(modules);
  return modules;
}

static std::string printed(ModuleOp module, bool isGeneric) {
  std::string text;
  llvm::raw_string_ostream out(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(true);
  module.print(out, isGeneric ? flags.printGenericOpForm() : flags);
  return text;
}

/// Ends the process if the text does not parse.
static void checkParses(StringRef text, MLIRContext &context) {
  auto source = std::make_shared<llvm::SourceMgr>();
  source->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
  cleave::checkParses(source, context, [](Diagnostic &diagnostic) {
    noteOutcome(diagnostic.str());
    endChild(/*isUseful=*/false);
  });
}

/// Made once, before the first fork, since it registers thousands of operators.
static MLIRContext &sharedContext() {
  static const DialectRegistry registry = [] {
    DialectRegistry all;
    registerDialects(all);
    return all;
  }();
  static MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  static const bool isLoaded = (context.loadAllAvailableDialects(), true);
  (void)isLoaded;
  return context;
}

static bool testText(llvm::ArrayRef<uint8_t> bytes) {
  // The lexer reads the zero behind a text.
  const std::string text = textOf(bytes).str();
  MLIRContext &context = sharedContext();
  checkParses(text, context);
  std::string message = "accepted";
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  auto module = parseSourceString<ModuleOp>(text, &context);
  promise(module || message != "accepted", "a module is refused without a reason");
  if (!module)
    return false;
  module->walk([&](Operation *op) { message += " " + op->getName().getStringRef().str(); });
  noteOutcome(message);
  for (bool isGeneric : {false, true}) {
    std::string print = printed(*module, isGeneric);
    auto again = parseSourceString<ModuleOp>(print, &context);
    promise(bool(again), "what is printed does not parse: " + message + "\n" + print);
    promise(printed(*again, isGeneric) == print, "what is printed parses to something else\n" + print);
  }
  return true;
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  (void)sharedContext();
  return inChild(bytes, testText);
}

} // namespace cleave::fuzz
