//===- ShardOptions.cpp - Sharding rules for weights ----------------------===//
#include "tools/driver/base/ShardOptions.h"
#include "codegen/plan/files/InputFile.h"
#include "partitioner/machine/JsonFile.h"
#include "partitioner/search/ShardingSearch.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

namespace cleave {

using llvm::StringRef;

/// Reports an error in an option, or in a file.
using Complain = llvm::function_ref<llvm::Error(const llvm::Twine &what)>;

static llvm::Error check(StringRef pattern, StringRef style, Complain complain) {
  if (auto parsed = parseShardingStyle(style); !parsed)
    return complain(toString(parsed.takeError()));
  // The pass pipeline is text, in which patterns stand as they are.
  const size_t unfit = pattern.find_first_of(" ,(){}<>'\"\\=");
  auto isControl = [](unsigned char c) { return c < ' ' || c == 127; };
  if (pattern.empty() || unfit != StringRef::npos || llvm::any_of(pattern, isControl) ||
      pattern.count('[') != pattern.count(']'))
    return complain("found pattern \"" + pattern +
                    "\", expected module paths as the model's source has them, with *, ? and [0-9]");
  if (auto glob = llvm::GlobPattern::create(pattern); !glob)
    return complain(toString(glob.takeError()));
  return llvm::Error::success();
}

/// The patterns are one object; the others leave room for a message about what is wrong with them.
static constexpr JsonFileKind kShardFile = {"shard file", 1 << 20, 64};

static llvm::Error readFile(const std::string &path, std::vector<std::string> &rules) {
  auto fault = [&](const llvm::Twine &what) {
    return llvm::createStringError("--shard-file " + path + ": " + what);
  };
  const std::string remedy = "; give a JSON file of patterns and styles";
  auto file = plan::InputFile::open(path);
  if (!file && file.getError() != std::errc::invalid_argument)
    return fault(file.getError().message() + remedy);
  if (!file || file->bytes() > kShardFile.mostBytes)
    return fault("no regular file of at most 1 MiB" + remedy);
  auto buffer = file->read();
  if (!buffer)
    return fault(plan::describeInputError(buffer.getError()) + remedy);
  const StringRef text = (*buffer)->getBuffer();
  auto value = readJsonText(text, "--shard-file " + path, kShardFile);
  if (!value)
    return value.takeError();
  auto *object = value->getAsObject();
  if (!object)
    return fault("expected an object of patterns and styles, {\"layers.*.wq\": \"colwise\"}");
  for (const std::string &pattern : keysInOrder(text)) {
    auto word = object->getString(pattern);
    if (!word)
      return fault("\"" + pattern + "\": expected a style in quotes");
    if (auto error = check(pattern, *word,
                           [&](const llvm::Twine &what) { return fault("\"" + pattern + "\": " + what); }))
      return error;
    rules.push_back(pattern + "=" + word->str());
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<std::string>> readShardOptions(const CompileOptions &options) {
  std::vector<std::string> rules;
  if (!options.shardFile.empty())
    if (auto error = readFile(options.shardFile, rules))
      return error;
  for (const std::string &text : options.shard) {
    auto fault = [&](const llvm::Twine &what) { return wrongUsage("--shard " + text + ": " + what); };
    auto [pattern, style] = StringRef(text).rsplit('=');
    if (style.empty())
      return fault("expected PATTERN=STYLE, such as layers.*.wq=colwise");
    if (auto error = check(pattern, style, fault))
      return error;
    rules.push_back(text);
  }
  return rules;
}

} // namespace cleave
