//===- GlooBackend.h - What connects devices, for those that are CPUs -*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_GLOOBACKEND_H
#define CLEAVE_TESTS_UNIT_RUNTIME_GLOOBACKEND_H

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace cleave::runtime {

/// Members of a group that are threads. NCCL's place is taken by Gloo, whose tensors lie on the CPU: c10d
/// means the same by its calls.
class GlooBackends {
public:
  explicit GlooBackends(uint32_t size);
  /// That of member `index`; returns when all have asked for theirs. SavedForBackward, since who has done its part closes
  /// connections that others may still make.
  c10::intrusive_ptr<c10d::Backend> member(uint32_t index);

private:
  const uint32_t size;
  const c10::intrusive_ptr<c10d::Store> store;
  std::vector<c10::intrusive_ptr<c10d::Backend>> members;
};

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_GLOOBACKEND_H
