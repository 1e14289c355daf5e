//===- ParseCheck.cpp - Checks that IR parses -----------------------------===//
#include "tools/cleave-opt/ParseCheck.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

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

namespace {
/// An open bracket: what closes it, and the operators since the last comma in it. The parser calls itself for
/// each operator of an affine expression.
struct Bracket {
  char closing;
  size_t operators = 0;
};
} // namespace

/// What closes the bracket `symbol`; 0 if it is none. `<=` is a comparison.
static char closingOf(char symbol, char after) {
  switch (symbol) {
  case '(':
    return ')';
  case '[':
    return ']';
  case '{':
    return '}';
  case '<':
    return after == '=' ? 0 : '>';
  default:
    return 0;
  }
}

/// True if `text` begins with an operator of an affine expression; `before` is the character before it.
static bool isOperator(llvm::StringRef text, char before) {
  if (llvm::StringRef("+-*").contains(text.front()))
    return true;
  return !llvm::isAlpha(before) && llvm::any_of(std::array{"mod", "floordiv", "ceildiv"},
                                                [&](const char *word) { return text.starts_with(word); });
}

llvm::Error checkIrText(llvm::StringRef text) {
  auto lineOf = [&](size_t at) { return text.take_front(at).count('\n') + 1; };
  for (auto [at, byte] : llvm::enumerate(text.bytes()))
    if ((byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      return llvm::createStringError("line %zu: found the control character 0x%02x, expected text",
                                     lineOf(at), unsigned(byte));
  std::vector<Bracket> open;
  // Of all open brackets.
  size_t operators = 0;
  auto forget = [&] { operators -= std::exchange(open.back().operators, 0); };
  for (size_t at = 0; at < text.size(); ++at) {
    if (const size_t behind = skipped(text, at); behind > at) {
      at = behind - 1;
      continue;
    }
    const char before = at > 0 ? text[at - 1] : ' ', after = at + 1 < text.size() ? text[at + 1] : ' ';
    if (const char closing = closingOf(text[at], after)) {
      open.push_back({closing});
    } else if (open.empty()) {
      continue;
    } else if (text[at] == ',') {
      forget();
    } else if (text[at] == open.back().closing && !(text[at] == '>' && before == '-')) {
      forget();
      open.pop_back();
    } else if (open.back().closing != '}' && isOperator(text.substr(at), before)) {
      ++open.back().operators;
      ++operators;
    }
    if (open.size() > kMostNested)
      return llvm::createStringError("line %zu: found brackets nested more than %zu deep", lineOf(at),
                                     kMostNested);
    if (open.size() + operators > kMostNested)
      return llvm::createStringError("line %zu: found an expression of more than %zu operators", lineOf(at),
                                     kMostNested);
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
