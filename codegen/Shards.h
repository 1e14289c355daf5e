//===- Shards.h - Weight files of a plan ------------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_SHARDS_H
#define CLEAVE_CODEGEN_SHARDS_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Safetensors.h"

namespace cleave {

/// Hands the bytes of a rank's part of a weight, row-major and in the dtype that the plan gives it, to the
/// sink in order and in pieces.
using WeightReader = llvm::function_ref<llvm::Error(const plan::Weight &weight,
                                                    const plan::WeightShard &shard, plan::ByteSink sink)>;

/// Writes a file of weights for each rank of `plan` into `directory` and enters them in the plan.
llvm::Error writeShards(plan::Plan &plan, llvm::StringRef directory, WeightReader read);

} // namespace cleave

#endif // CLEAVE_CODEGEN_SHARDS_H
