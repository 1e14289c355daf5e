//===- ShardOptions.h - How weights are to be split -------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H
#define CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H

#include "tools/driver/base/CompileOptions.h"

namespace cleave {

/// `PATTERN=STYLE` of --shard-file, then of --shard, checked, in the order in which they count: the last
/// match wins.
llvm::Expected<std::vector<std::string>> readShardOptions(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_SHARDOPTIONS_H
