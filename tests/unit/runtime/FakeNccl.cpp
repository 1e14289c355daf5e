//===- FakeNccl.cpp - Gloo in place of NCCL, on CPUs ----------------------===//
//
// Gloo is declared in runtime/comm/process/gloo-headers, the code is libtorch's, as in
// runtime/comm/process/Gloo.cpp.
//
//===----------------------------------------------------------------------===//
#include "tests/unit/runtime/FakeNccl.h"
#include <c10/util/env.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace cleave::runtime {

FakeNcclGroup::FakeNcclGroup(uint32_t size)
    : size(size), store(c10::make_intrusive<c10d::HashStore>()), members(size) {
  // c10d's recorder of calls is one for the process, and enters groups of several threads without a lock.
  c10::utils::set_env("TORCH_FR_BUFFER_SIZE", "0");
  c10::utils::set_env("TORCH_NCCL_TRACE_BUFFER_SIZE", "0");
}

c10::intrusive_ptr<c10d::Backend> FakeNcclGroup::member(uint32_t index) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1", /*lazyInit=*/false));
  members[index] = c10::make_intrusive<c10d::ProcessGroupGloo>(store, int(index), int(size), options);
  return members[index];
}

} // namespace cleave::runtime
