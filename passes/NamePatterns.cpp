//===- NamePatterns.cpp ---------------------------------------------------===//
#include "passes/NamePatterns.h"
#include "ir/Cleave.h"

using namespace mlir;

namespace cleave {

FailureOr<NamePatterns> NamePatterns::parse(Operation *op, ArrayRef<std::string> texts) {
  NamePatterns result;
  result.texts = texts.vec();
  // A pattern refers to its text.
  for (const std::string &text : result.texts) {
    auto pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return op->emitError() << "pattern \"" << text << "\": " << llvm::toString(pattern.takeError());
    result.patterns.push_back(std::move(*pattern));
  }
  return result;
}

bool NamePatterns::match(StringRef name) const {
  return llvm::any_of(patterns, [&](auto &pattern) { return pattern.match(name); });
}

LogicalResult NamePatterns::checkMatches(func::FuncOp function, StringRef what) const {
  for (auto [text, pattern] : llvm::zip(texts, patterns)) {
    std::string example;
    bool isFound = false;
    function.walk([&](ParamOp param) {
      if (param.getRole() != "parameter")
        return;
      example = param.getName().str();
      isFound |= pattern.match(param.getName());
      for (Attribute alias : param.getAliases() ? param.getAliases()->getValue() : ArrayRef<Attribute>())
        isFound |= pattern.match(cast<StringAttr>(alias).getValue());
    });
    if (!isFound)
      return function.emitError() << what << ": found \"" << text << "\", which matches none, "
                                  << (example.empty() ? "and the model has none"
                                                      : "expected a name as " + example + ", with * and ?");
  }
  return success();
}

} // namespace cleave
