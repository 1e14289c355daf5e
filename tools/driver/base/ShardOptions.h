//===- ShardOptions.h - Sharding rules for weights --------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H
#define CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H

#include "tools/driver/base/CompileOptions.h"

namespace cleave {

/// `PATTERN=STYLE` rules of --shard-file, then of --shard, checked. The last match wins.
llvm::Expected<std::vector<std::string>> readShardOptions(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H
