//===- GlooBackend.cpp - What connects devices, for those that are CPUs ---===//
//
// Gloo's headers are Debian's, the code is libtorch's, as in runtime/Gloo.cpp.
//
//===----------------------------------------------------------------------===//
#include "tests/unit/runtime/GlooBackend.h"
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace cleave::runtime {

GlooBackends::GlooBackends(uint32_t size)
    : size(size), store(c10::make_intrusive<c10d::HashStore>()), members(size) {}

c10::intrusive_ptr<c10d::Backend> GlooBackends::member(uint32_t index) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1", /*lazyInit=*/false));
  members[index] = c10::make_intrusive<c10d::ProcessGroupGloo>(store, int(index), int(size), options);
  return members[index];
}

} // namespace cleave::runtime
