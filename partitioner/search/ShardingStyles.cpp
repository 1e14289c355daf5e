//===- ShardingStyles.cpp - Styles of sharded weights ---------------------===//
#include "ir/NearestName.h"
#include "partitioner/search/ShardingSearch.h"
#include "llvm/ADT/StringSwitch.h"

namespace cleave {

using llvm::StringRef;

StringRef wordOf(ShardingStyle style) {
  switch (style) {
  case ShardingStyle::Replicate:
    return "replicate";
  case ShardingStyle::Colwise:
    return "colwise";
  case ShardingStyle::Rowwise:
    return "rowwise";
  case ShardingStyle::EmbeddingRowwise:
    return "embedding_rowwise";
  }
  llvm_unreachable("all styles have words");
}

llvm::Expected<ShardingStyle> parseShardingStyle(StringRef word) {
  // Whether inputs and outputs are whole or sharded follows from the sharding group, so variants that differ
  // in this are synonyms.
  auto style = llvm::StringSwitch<std::optional<ShardingStyle>>(word)
                   .Cases("colwise", "colwise_rep", "colwise_gather_output", "packed_colwise",
                          "local_colwise", "ColwiseParallel", ShardingStyle::Colwise)
                   .Cases("rowwise", "rowwise_rep", "rowwise_split_input", "packed_rowwise", "local_rowwise",
                          "RowwiseParallel", ShardingStyle::Rowwise)
                   .Cases("embedding_rowwise", "vocab", ShardingStyle::EmbeddingRowwise)
                   .Cases("replicate", "replicated_with_grad_allreduce", ShardingStyle::Replicate)
                   .Default(std::nullopt);
  if (style)
    return *style;
  return llvm::createStringError("found style \"" + word +
                                 "\", expected colwise, rowwise, embedding_rowwise or replicate" +
                                 didYouMean(word, {"colwise", "rowwise", "embedding_rowwise", "replicate",
                                                   "ColwiseParallel", "RowwiseParallel"}));
}

} // namespace cleave
