//===- Link.h - A link between two devices ----------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_LINK_H
#define CLEAVE_PARTITIONER_MACHINE_LINK_H

namespace cleave {

/// The link between two devices, in one direction.
struct Link {
  double latencySeconds = 0;
  double bytesPerSecond = 1;
  bool operator==(const Link &) const = default;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_LINK_H
