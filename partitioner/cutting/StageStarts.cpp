//===- StageStarts.cpp - Where stages are to begin ------------------------===//
#include "partitioner/cutting/StageStarts.h"
#include "ir/NearestName.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

/// True if `path` is the module `module`, or inside it, in any of its calls.
static bool isInside(StringRef path, StringRef module) {
  return path.consume_front(module) && (path.empty() || path.front() == '.' || path.front() == '#');
}

static StringRef parentOf(StringRef path) { return path.contains('.') ? path.rsplit('.').first : ""; }

/// The nearest path, else the names of its siblings: `; transformer has wte, wpe, h, ln_f`.
static std::string suggestPath(const ModelGraph &model, StringRef wanted) {
  llvm::SetVector<StringRef> paths;
  for (auto &ops : model.nodes)
    for (Operation *op : ops)
      // The path and each enclosing module.
      for (StringRef path = modulePath(op).split('#').first; !path.empty(); path = parentOf(path))
        paths.insert(path);
  if (std::string meant =
          didYouMean(wanted, llvm::to_vector(llvm::map_range(paths, std::mem_fn(&StringRef::str))));
      !meant.empty())
    return meant;
  StringRef known = wanted;
  while (!known.empty() && !paths.contains(known))
    known = parentOf(known);
  std::vector<StringRef> inside;
  for (StringRef path : paths)
    if (parentOf(path) == known)
      inside.push_back(path.drop_front(known.empty() ? 0 : known.size() + 1));
  return ("; " + (known.empty() ? StringRef("the model") : known) + " has " + llvm::join(inside, ", ")).str();
}

llvm::Expected<std::vector<uint32_t>> stageStartsOf(const ModelGraph &model,
                                                    llvm::ArrayRef<std::string> paths) {
  std::vector<uint32_t> starts;
  for (const std::string &path : paths) {
    auto first = llvm::find_if(model.nodes, [&](auto &ops) {
      return llvm::any_of(ops, [&](Operation *op) { return isInside(modulePath(op), path); });
    });
    if (first == model.nodes.end())
      return makeError("--stage-before {0}: no module of this path does work{1}", path,
                       suggestPath(model, path));
    if (first != model.nodes.begin())
      starts.push_back(first - model.nodes.begin());
  }
  llvm::sort(starts);
  starts.erase(llvm::unique(starts), starts.end());
  return starts;
}

} // namespace cleave
