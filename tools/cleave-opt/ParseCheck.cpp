//===- ParseCheck.cpp - Checks that IR parses -----------------------------===//
#include "tools/cleave-opt/ParseCheck.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace mlir;

namespace cleave {

static constexpr size_t kMostNested = 500;

/// Index behind the string literal or comment that begins at `at`; `at` where none does.
static size_t skipped(llvm::StringRef text, size_t at) {
  if (text.substr(at).starts_with("//"))
    return std::min(text.find('\n', at), text.size());
  if (text[at] != '"')
    return at;
  size_t end = at + 1;
  while (end < text.size() && text[end] != '"' && text[end] != '\n')
    end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

llvm::Error checkIrText(llvm::StringRef text) {
  auto lineOf = [&](size_t at) { return text.take_front(at).count('\n') + 1; };
  for (auto [at, byte] : llvm::enumerate(text.bytes()))
    if ((byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      return llvm::createStringError("line %zu: found the control character 0x%02x, expected text",
                                     lineOf(at), unsigned(byte));
  size_t depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (const size_t behind = skipped(text, at); behind > at) {
      at = behind - 1;
      continue;
    }
    if (llvm::StringRef("([{<").contains(text[at]) && ++depth > kMostNested)
      return llvm::createStringError("line %zu: found brackets nested more than %zu deep", lineOf(at),
                                     kMostNested);
    const bool isArrow = text[at] == '>' && at > 0 && text[at - 1] == '-';
    if (llvm::StringRef(")]}>").contains(text[at]) && !isArrow && depth > 0)
      --depth;
  }
  return llvm::Error::success();
}

void checkParses(const std::shared_ptr<llvm::SourceMgr> &source, MLIRContext &context,
                 llvm::function_ref<void(Diagnostic &)> refuse) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      refuse(diagnostic);
  });
  parseSourceFile<ModuleOp>(source, ParserConfig(&context, /*verifyAfterParse=*/false));
}

} // namespace cleave
