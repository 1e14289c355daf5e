//===- Shards.h - Weight files of a plan ------------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_SHARDS_H
#define CLEAVE_CODEGEN_SHARDS_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Safetensors.h"

namespace cleave {

/// Passes the bytes of a rank's shard of a weight to the sink in order, piece by piece: row-major, in the
/// dtype that the plan gives the weight.
using WeightReader = llvm::function_ref<llvm::Error(const plan::Weight &weight,
                                                    const plan::WeightShard &shard, plan::ByteSink sink)>;

/// Writes a safetensors file of weights for each rank of `plan` into `directory`, and adds the files to the
/// plan.
llvm::Error writeShards(plan::Plan &plan, llvm::StringRef directory, WeightReader read);

} // namespace cleave

#endif // CLEAVE_CODEGEN_SHARDS_H
