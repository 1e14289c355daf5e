//===- StageDevice.h - What a pipeline stage runs on ------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H
#define CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H

#include "partitioner/machine/Link.h"
#include <cstdint>
#include <optional>

namespace cleave {

/// The device of a pipeline stage.
struct StageDevice {
  /// Link over which it receives the values of earlier stages.
  Link link;
  /// Limit of the bytes of its weights; nothing if there is none.
  std::optional<int64_t> weightLimit = std::nullopt;
  /// Index of its kind, as in StageGraph::Node::secondsOn.
  uint32_t kind = 0;
  bool operator==(const StageDevice &) const = default;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_STAGEDEVICE_H
