//===- FakeNccl.h - Gloo in place of NCCL, on CPUs --------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_FAKENCCL_H
#define CLEAVE_TESTS_UNIT_RUNTIME_FAKENCCL_H

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace cleave::runtime {

/// Backends of a group whose members are threads. Gloo, on CPU tensors, takes the place of NCCL: the c10d
/// interface is the same.
class FakeNcclGroup {
public:
  explicit FakeNcclGroup(uint32_t size);
  /// The backend of member `index`; returns when all members have asked for theirs. Backends live as long as
  /// this object: destroying one closes connections that other members may still be making.
  c10::intrusive_ptr<c10d::Backend> member(uint32_t index);

private:
  const uint32_t size;
  const c10::intrusive_ptr<c10d::Store> store;
  std::vector<c10::intrusive_ptr<c10d::Backend>> members;
};

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_FAKENCCL_H
