//===- NearestName.cpp - Suggestions for misspelt names -------------------===//
#include "ir/NearestName.h"

namespace cleave {

std::string didYouMean(llvm::StringRef wanted, llvm::ArrayRef<std::string> names) {
  unsigned least = wanted.size() / 3 + 1;
  llvm::StringRef nearest;
  for (llvm::StringRef name : names)
    if (unsigned distance = wanted.edit_distance(name, /*AllowReplacements=*/true, least); distance < least) {
      least = distance;
      nearest = name;
    }
  return nearest.empty() ? "" : ("; did you mean " + nearest + "?").str();
}

} // namespace cleave
