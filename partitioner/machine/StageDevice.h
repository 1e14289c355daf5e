//===- StageDevice.h - What a pipeline stage runs on ------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H
#define CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H

#include "partitioner/machine/Link.h"
#include <cstdint>
#include <optional>

namespace cleave {

/// What a pipeline stage runs on.
struct StageDevice {
  /// Over which it receives what earlier stages made.
  Link link;
  /// Bytes of weights that it may hold; nothing: no limit.
  std::optional<int64_t> weightLimit = std::nullopt;
  /// Of those that the graph's nodes have seconds on.
  uint32_t kind = 0;
  bool operator==(const StageDevice &) const = default;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H
