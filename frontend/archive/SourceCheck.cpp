//===- SourceCheck.cpp - Source code at which libtorch crashes ------------===//
#include "frontend/archive/SourceCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <torch/csrc/jit/frontend/lexer.h>

namespace cleave {

/// True if an expression can end with this token: a `[` after it opens a subscript, not a list.
static bool endsExpression(int kind) {
  using namespace torch::jit;
  return llvm::is_contained({int(TK_IDENT), int(TK_NUMBER), int(TK_STRINGLITERAL), int(TK_NONE), int(TK_TRUE),
                             int(TK_FALSE), int(TK_DOTS), int(')'), int(']'), int('}')},
                            kind);
}

llvm::Error checkEmptySubscripts(const std::string &code) {
  try {
    torch::jit::Lexer lexer(std::make_shared<torch::jit::Source>(code));
    int before = torch::jit::TK_EOF;
    for (; lexer.cur().kind != torch::jit::TK_EOF; before = lexer.next().kind)
      if (lexer.cur().kind == '[' && endsExpression(before) && lexer.lookahead().kind == ']')
        return llvm::createStringError(
            "line " +
            llvm::Twine(1 + llvm::StringRef(code).take_front(lexer.cur().range.start()).count('\n')) +
            " has an empty subscript");
  } catch (const std::exception &) {
    // Not TorchScript: libtorch reports it when it compiles the source.
  }
  return llvm::Error::success();
}

} // namespace cleave
