//===- GuardedMemory.cpp - Tensors between pages that trap ----------------===//
#include "tests/operators/GuardedMemory.h"
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <cstring>
#include <sys/mman.h>
#include <unordered_map>
#include <utility>

namespace cleave::operators {

static constexpr size_t kGuard = size_t(1) << 30;
static constexpr size_t kPage = 4096;
/// Regions lie one behind the other from here on, so that an address tells whether it is in one.
static char *const kFirst = reinterpret_cast<char *>(uintptr_t(1) << 44);
static constexpr size_t kSpace = size_t(64) << 40;

static Side side = Side::End;
static uint8_t poison = 0;
static size_t held = 0;
static char *following = kFirst;

/// The pages of what was given, by its first byte.
static std::unordered_map<void *, std::pair<char *, size_t>> regions;

static void release(void *data) {
  auto found = regions.find(data);
  auto [pages, bytes] = found->second;
  regions.erase(found);
  munmap(pages, bytes);
  held -= bytes;
}

/// The pages before `following` and behind what is returned are not mapped, and nothing else is put there:
/// that traps as pages without rights do, and costs nothing.
static char *mapPages(size_t bytes) {
  if (size_t(following - kFirst) + 2 * kGuard + bytes > kSpace)
    following = kFirst;
  char *wanted = following + kGuard;
  void *pages = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  TORCH_CHECK(pages == wanted, "not enough memory: cannot map ", bytes, " bytes");
  following = wanted + bytes;
  return wanted;
}

namespace {
class GuardedAllocator : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    const size_t pageBytes = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
    TORCH_CHECK(bytes <= kMaxTensorBytes && held + pageBytes <= kMaxTensorBytes,
                "not enough memory: you tried to allocate ", bytes, " bytes");
    char *pages = mapPages(pageBytes);
    held += pageBytes;
    std::memset(pages, poison, pageBytes);
    char *data = side == Side::End ? pages + pageBytes - bytes : pages;
    // What is empty stands on a page that traps, which others may have, too.
    if (bytes == 0)
      data = pages;
    regions[data] = {pages, pageBytes};
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *destination, const void *source, size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }
};
} // namespace

void guardTensors() {
  static GuardedAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

void setGuards(Side newSide, uint8_t newPoison) {
  side = newSide;
  poison = newPoison;
}

bool isGuard(const void *address) {
  auto *place = static_cast<const char *>(address);
  return place >= kFirst && place < kFirst + kSpace;
}

} // namespace cleave::operators
