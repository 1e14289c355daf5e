//===- Shards.cpp - Weight files of a plan --------------------------------===//
#include "codegen/Shards.h"
#include "codegen/plan/PlanFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

namespace cleave {

static llvm::Error writeRank(plan::Plan &plan, uint32_t rank, llvm::StringRef directory, WeightReader read) {
  std::vector<plan::TensorEntry> entries;
  std::vector<std::pair<const plan::Weight *, const plan::WeightShard *>> parts;
  for (auto &weight : plan.weights)
    for (auto &shard : weight->shards)
      if (shard->rank == rank) {
        entries.push_back({shard->key, weight->dtype, shard->shape});
        parts.push_back({weight.get(), shard.get()});
      }
  auto file = std::make_unique<plan::ShardFile>();
  file->rank = rank;
  file->name = plan::shardFileName(rank);
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, file->name);
  auto written = plan::writeSafetensors(path, std::move(entries), [&](size_t entry, plan::ByteSink sink) {
    return read(*parts[entry].first, *parts[entry].second, sink);
  });
  if (!written)
    return written.takeError();
  file->bytes = written->bytes;
  file->hash = std::make_unique<plan::wire::Hash>(written->digest);
  plan.shard_files.push_back(std::move(file));
  return llvm::Error::success();
}

llvm::Error writeShards(plan::Plan &plan, llvm::StringRef directory, WeightReader read) {
  uint32_t ranks = plan.mesh->pp * plan.mesh->dp * plan.mesh->tp;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (auto error = writeRank(plan, rank, directory, read))
      return error;
  return llvm::Error::success();
}

} // namespace cleave
