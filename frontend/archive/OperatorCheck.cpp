//===- OperatorCheck.cpp - Operators that a model's code names ------------===//
#include "frontend/archive/OperatorCheck.h"
#include "codegen/plan/OperatorName.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parse_string_literal.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace cleave {

using llvm::StringRef;
using torch::jit::TK_IDENT;
using torch::jit::TK_STRINGLITERAL;

static llvm::Error refuse(StringRef record, const llvm::Twine &what) {
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(),
      "record " + record + " uses " + what +
          ", which no plan may call, and nothing else keeps a model from your files on this "
          "system; if you trust the model, pass --trust");
}

/// Checks a name without overload, since sources have none. In-place operators count as the functional ones,
/// since no plan contains them.
static bool isAllowed(StringRef name) {
  return plan::isAnyOverloadListed(name) || name == "aten::copy_" ||
         (name.consume_back("_") && plan::isAnyOverloadListed(name));
}

/// By name of an operator called without its namespace (`torch.add`, `x.add`): true if it is allowed. It is
/// of aten, else of prim.
static llvm::StringMap<bool> tabulateNames() {
  llvm::StringMap<bool> allowed;
  for (StringRef wanted : {"prim", "aten"})
    for (const auto &op : torch::jit::getAllOperators())
      if (auto [space, name] = StringRef(op->schema().name()).split("::"); space == wanted)
        allowed[name] = isAllowed(op->schema().name());
  return allowed;
}

namespace {
/// The tokens of a source file, as libtorch's lexer reads them; adjacent strings are one.
struct Words {
  Words(const std::string &source, const std::string &name) {
    torch::jit::Lexer lexer(std::make_shared<torch::jit::Source>(source, name, 1));
    for (; lexer.cur().kind != torch::jit::TK_EOF; lexer.next())
      add(lexer.cur());
  }
  void add(const torch::jit::Token &token) {
    std::string text = token.text();
    if (token.kind == TK_STRINGLITERAL)
      text = torch::jit::parseStringLiteral(token.range, text);
    if (token.kind == TK_STRINGLITERAL && !words.empty() && words.back().first == TK_STRINGLITERAL)
      words.back().second += text;
    else
      words.push_back({token.kind, text});
    findsByText |= token.kind == TK_IDENT && text == "getattr";
  }
  bool isDot(size_t at) const { return at < words.size() && words[at].first == '.'; }
  StringRef name(size_t at) const {
    return at < words.size() && words[at].first == TK_IDENT ? StringRef(words[at].second) : StringRef();
  }
  /// The name of the member that is accessed at this token; empty if it is none.
  StringRef member(size_t at) const {
    const bool isText = findsByText && words[at].first == TK_STRINGLITERAL;
    return isText ? StringRef(words[at].second) : at > 0 && isDot(at - 1) ? name(at) : StringRef();
  }

  std::vector<std::pair<int, std::string>> words;
  /// True if any string may be a name: `getattr(torch, "relu")`.
  bool findsByText = false;
};
} // namespace

/// Checks `ops.image.read_file`, which must be written out: a namespace in a variable could be any.
static llvm::Error checkOps(const Words &words, size_t at, StringRef record) {
  StringRef space = words.name(at + 2), name = words.name(at + 4);
  const bool isWhole = words.isDot(at + 1) && words.isDot(at + 3) && !space.empty() && !name.empty();
  if (isWhole && isAllowed((space + "::" + name).str()))
    return llvm::Error::success();
  return refuse(record, isWhole ? "operator " + (space + "::" + name).str() : "operators by other names");
}

llvm::Error checkSourceOperators(const std::string &text, const std::string &record) {
  static const llvm::StringMap<bool> known = tabulateNames();
  const Words words(text, record);
  for (size_t at = 0; at < words.words.size(); ++at) {
    StringRef member = words.member(at);
    if (words.name(at) == "ops" && member.empty()) {
      if (llvm::Error error = checkOps(words, at, record))
        return error;
      at += 4;
      continue;
    }
    // C++ classes are refused, except for those of quantized weights, which hold weights only.
    if (member == "classes" && !(words.isDot(at + 1) && words.name(at + 2) == "quantized"))
      return refuse(record, "classes of libtorch's");
    auto found = known.find(member);
    if (!member.empty() && found != known.end() && !found->second)
      return refuse(record, "operator " + member);
  }
  return llvm::Error::success();
}

/// Objects of C++ classes restore themselves by code of these classes.
static llvm::Error checkClasses(StringRef pickle, StringRef record) {
  static constexpr StringRef kClasses = "torch.classes.";
  for (size_t at = pickle.find(kClasses); at != StringRef::npos; at = pickle.find(kClasses, at + 1)) {
    StringRef name = pickle.substr(at + kClasses.size());
    if (!name.starts_with("quantized."))
      return refuse(record, "class " + kClasses + name.take_while([](char c) {
        return llvm::isAlnum(c) || c == '.' || c == '_';
      }));
  }
  return llvm::Error::success();
}

llvm::Error checkOperators(caffe2::serialize::PyTorchStreamReader &reader,
                           llvm::ArrayRef<ZipRecord> records) {
  for (const ZipRecord &record : records) {
    StringRef name = record.name;
    // libtorch also finds records by names of other case.
    const bool isSource = name.ends_with_insensitive(".py"), isPickle = name.ends_with_insensitive(".pkl");
    if (!isSource && !isPickle)
      continue;
    auto [data, size] = reader.getRecord(record.name);
    std::string text(static_cast<const char *>(data.get()), size);
    if (llvm::Error error = isSource ? checkSourceOperators(text, record.name) : checkClasses(text, name))
      return error;
  }
  return llvm::Error::success();
}

} // namespace cleave
