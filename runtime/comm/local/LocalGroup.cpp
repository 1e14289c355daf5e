//===- LocalGroup.cpp - Collectives between threads -----------------------===//
#include "runtime/comm/local/LocalGroup.h"
#include "collectives/Collectives.h"
#include "runtime/comm/RankSum.h"
#include "runtime/device/DeviceCollectives.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <cstring>
#include <thread>

namespace cleave::runtime {

using at::IntArrayRef;
using at::Tensor;
using llvm::ArrayRef;

LocalGroup::LocalGroup(std::vector<uint32_t> ids, bool spins, CancellationToken &cancellation)
    : ranks(std::move(ids)), spins(spins), cancellation(cancellation), slots(ranks.size()),
      waker(cancellation, [this] { wake(); }) {
  members.reserve(ranks.size());
  for (uint32_t index = 0; index < ranks.size(); ++index) {
    members.emplace_back(*this, index);
    slots[index].inputs.resize(ranks.size());
    slots[index].outputs.resize(ranks.size());
  }
}

//===- Barriers -----------------------------------------------------------===//

/// Spins for some µs, about the time to wake a thread.
static constexpr int kSpins = 200;

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

bool LocalGroup::haveReached(Counter counter, uint64_t count) const {
  return llvm::all_of(slots, [&](const Slot &slot) { return slot.*counter >= count; });
}

void LocalGroup::wake() {
  // A thread that has checked the condition and is about to sleep holds the lock.
  {
    std::lock_guard lock(mutex);
  }
  changed.notify_all();
}

void LocalGroup::publish(std::atomic<uint64_t> &counter, uint64_t count) {
  counter = count;
  // A rank that begins to sleep increments `sleepers` before it reads the counter: so either this thread sees
  // the sleeper, or the rank sees the new count.
  if (sleepers > 0)
    wake();
}

/// Returns false at the deadline.
bool LocalGroup::sleep(Counter counter, uint64_t count) {
  const auto deadline = cancellation.deadline();
  ++sleepers;
  std::unique_lock lock(mutex);
  const bool ended = changed.wait_until(
      lock, deadline, [&] { return haveReached(counter, count) || cancellation.isCancelled(); });
  --sleepers;
  return ended;
}

void LocalGroup::waitForCounter(Slot &own, Counter counter, uint64_t count) {
  for (int spin = 0; spins && spin < kSpins && !haveReached(counter, count); ++spin)
    pause();
  if (haveReached(counter, count))
    return;
  own.sleeps = true;
  if (!sleep(counter, count))
    cancellation.expire();
  own.sleeps = false;
  TORCH_CHECK(haveReached(counter, count), "the request was cancelled");
}

std::string LocalGroup::awaited(uint32_t index) const {
  const Slot &own = slots[index];
  const uint64_t count = own.published;
  if (!own.sleeps || count == 0)
    return "";
  std::vector<std::string> missing;
  for (Counter counter : {&Slot::published, &Slot::finished})
    for (uint32_t other = 0; other < slots.size() && missing.empty(); ++other)
      if (other != index && slots[other].*counter < count)
        missing.push_back("rank " + std::to_string(ranks[other]));
  return missing.empty() ? "" : missing.front();
}

//===- Agreeing -----------------------------------------------------------===//

template <typename Work> void LocalGroup::Member::exchange(CollectiveArgs args, Work work) {
  TORCH_CHECK(!group.cancellation.isCancelled(), "the request was cancelled");
  Slot &own = slot();
  own.args = std::move(args);
  const uint64_t call = own.published + 1;
  group.publish(own.published, call);
  group.waitForCounter(own, &Slot::published, call);
  verifyCollectiveMatch(group.ranks,
                        [&](uint32_t rank) -> const CollectiveCall & { return group.slots[rank].args.call; });
  work();
  group.publish(own.finished, call);
  group.waitForCounter(own, &Slot::finished, call);
  own.args = {};
}

template <typename Work>
Tensor LocalGroup::Member::exchangeOnGpus(CollectiveCall call, const Tensor &tensor, Work work) {
  Tensor result;
  const Tensor given = tensor.contiguous();
  exchange({std::move(call), given, {}, StreamEvents(c10::IValue(given))}, [&] {
    std::vector<Tensor> all;
    for (const Slot &each : group.slots) {
      each.args.ready.wait();
      recordStream(c10::IValue(each.args.tensor));
      all.push_back(each.args.tensor);
    }
    result = work(all);
  });
  return result;
}

//===- Sums ---------------------------------------------------------------===//

static const char *bytesOf(const Tensor &tensor) {
  return static_cast<const char *>(tensor.const_data_ptr());
}

void LocalGroup::Member::sumOwnChunk() {
  const Tensor &tensor = slot().args.tensor;
  const int64_t ranks = group.slots.size();
  auto [begin, end] = chunkOf(tensor.numel(), ranks, index);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const CollectiveArgs &args = group.slots[rank].args;
    slot().inputs[rank] = bytesOf(args.tensor) + begin * tensor.itemsize();
    slot().outputs[rank] = static_cast<char *>(args.result.mutable_data_ptr()) + begin * tensor.itemsize();
  }
  if (begin < end)
    sumInOrder(tensor.scalar_type(), slot().inputs, slot().outputs, end - begin);
}

Tensor LocalGroup::Member::allReduce(const Tensor &tensor) {
  checkSummable(tensor.scalar_type());
  const CollectiveCall call = callOf(CollectiveOp::AllReduce, tensor);
  if (isAsynchronous(tensor.device()))
    return exchangeOnGpus(call, tensor, [&](ArrayRef<Tensor> all) { return sumOn(tensor.device(), all); });
  Tensor result = at::empty(tensor.sizes(), tensor.options());
  exchange({call, tensor.contiguous(), result, {}}, [&] { sumOwnChunk(); });
  return result;
}

/// Checks that every range is within `size` positions.
static void checkRanges(IntArrayRef ranges, int64_t size) {
  for (size_t i = 0; i < ranges.size(); i += 2)
    TORCH_CHECK(ranges[i] <= size && ranges[i + 1] <= size - ranges[i], "found ", ranges[i + 1],
                " positions from ", ranges[i], " on, expected them among ", size);
}

/// Product of the sizes of dimensions [begin, end).
static int64_t productOf(IntArrayRef sizes, int64_t begin, int64_t end) {
  int64_t product = 1;
  for (int64_t dim = begin; dim < end; ++dim)
    product *= sizes[dim];
  return product;
}

Tensor LocalGroup::Member::reduceScatter(const Tensor &tensor, int64_t dim, IntArrayRef ranges) {
  checkSummable(tensor.scalar_type());
  const std::vector<int64_t> sizes = sizesWith(tensor, dim, extentOf(ranges, 2));
  checkRanges(ranges, tensor.size(dim));
  const CollectiveCall call = callOf(CollectiveOp::ReduceScatter, tensor, dim);
  if (isAsynchronous(tensor.device()))
    return exchangeOnGpus(call, tensor, [&](ArrayRef<Tensor> all) {
      return sumOn(tensor.device(), shardEach(all, dim, ranges));
    });
  Tensor result = at::empty(sizes, tensor.options());
  exchange({call, tensor.contiguous(), {}, {}}, [&] {
    const int64_t outer = productOf(tensor.sizes(), 0, dim),
                  inner = productOf(tensor.sizes(), dim + 1, tensor.dim());
    char *sum = static_cast<char *>(result.mutable_data_ptr());
    // A tensor without elements may have more rows than can be counted.
    for (int64_t row = 0; result.numel() > 0 && row < outer; ++row)
      for (size_t i = 0; i < ranges.size(); i += 2) {
        const int64_t begin = (row * tensor.size(dim) + ranges[i]) * inner, count = ranges[i + 1] * inner;
        for (size_t rank = 0; rank < group.slots.size(); ++rank)
          slot().inputs[rank] = bytesOf(group.slots[rank].args.tensor) + begin * tensor.itemsize();
        if (count > 0)
          sumInOrder(tensor.scalar_type(), slot().inputs, ArrayRef(sum), count);
        sum += count * tensor.itemsize();
      }
  });
  return result;
}

//===- Copies -------------------------------------------------------------===//

namespace {
/// A contiguous tensor as [outer][major][middle][minor] runs of bytes.
struct Grid {
  int64_t major, middle, minor, bytes;

  /// `major` and `minor` are dimensions of `tensor`, in that order; without a minor one `minor` is -1.
  Grid(const Tensor &tensor, int64_t majorDim, int64_t minorDim)
      : major(tensor.size(majorDim)),
        middle(minorDim < 0 ? 1 : productOf(tensor.sizes(), majorDim + 1, minorDim)),
        minor(minorDim < 0 ? 1 : tensor.size(minorDim)),
        bytes(productOf(tensor.sizes(), std::max(majorDim, minorDim) + 1, tensor.dim()) * tensor.itemsize()) {
  }
};

/// Positions along a dimension, in what is read and in what is written.
struct Window {
  int64_t from, to, size;
};
} // namespace

/// Copies the elements at the windows' positions, `outer` times over.
static void copyWindow(const char *from, const Grid &source, char *to, const Grid &target, int64_t outer,
                       Window major, Window minor) {
  if (outer == 0 || major.size == 0 || minor.size == 0 || source.middle == 0 || source.bytes == 0)
    return;
  const bool isWhole = source.middle == 1 && minor.size == source.minor && minor.size == target.minor;
  const int64_t run = minor.size * source.bytes * (isWhole ? major.size : 1);
  for (int64_t row = 0; row < outer; ++row)
    for (int64_t i = 0; i < (isWhole ? 1 : major.size); ++i)
      for (int64_t j = 0; j < source.middle; ++j) {
        const int64_t read =
            ((row * source.major + major.from + i) * source.middle + j) * source.minor + minor.from;
        const int64_t write =
            ((row * target.major + major.to + i) * target.middle + j) * target.minor + minor.to;
        std::memcpy(to + write * target.bytes, from + read * source.bytes, run);
      }
}

/// Checks that every piece is within its rank's tensor.
void LocalGroup::Member::checkPieces(int64_t dim, IntArrayRef pieces) const {
  for (size_t i = 0; i < pieces.size(); i += 3) {
    TORCH_CHECK(pieces[i] >= 0 && pieces[i] < int64_t(group.slots.size()), "found a piece of rank ",
                pieces[i], ", expected one of the group's ", group.slots.size());
    checkRanges(pieces.slice(i + 1, 2), group.slots[pieces[i]].args.tensor.size(dim));
  }
}

Tensor LocalGroup::Member::allGather(const Tensor &tensor, int64_t dim, IntArrayRef pieces) {
  // Checked before other ranks wait for this one; made once all ranks have arrived.
  const std::vector<int64_t> sizes = sizesWith(tensor, dim, extentOf(pieces, 3));
  const CollectiveCall call = callOf(CollectiveOp::AllGather, tensor, dim);
  if (isAsynchronous(tensor.device()))
    return exchangeOnGpus(call, tensor, [&](ArrayRef<Tensor> all) {
      checkPieces(dim, pieces);
      return gatherOn(tensor.device(), all, dim, pieces);
    });
  Tensor result;
  exchange({call, tensor.contiguous(), {}, {}}, [&] {
    checkPieces(dim, pieces);
    result = at::empty(sizes, tensor.options());
    const Grid target(result, dim, -1);
    int64_t done = 0;
    for (size_t i = 0; i < pieces.size(); i += 3) {
      const Tensor &source = group.slots[pieces[i]].args.tensor;
      copyWindow(bytesOf(source), Grid(source, dim, -1), static_cast<char *>(result.mutable_data_ptr()),
                 target, productOf(sizes, 0, dim), {pieces[i + 1], done, pieces[i + 2]}, {0, 0, 1});
      done += pieces[i + 2];
    }
  });
  return result;
}

Tensor LocalGroup::Member::allToAll(const Tensor &tensor, int64_t from, IntArrayRef pieces, int64_t to,
                                    IntArrayRef ranges) {
  std::vector<int64_t> sizes = sizesWith(tensor, to, extentOf(ranges, 2));
  TORCH_CHECK(from >= 0 && from < tensor.dim() && from != to, "found dimensions ", from, " and ", to,
              ", expected two of the tensor's ", tensor.dim());
  checkRanges(ranges, tensor.size(to));
  sizes[from] = extentOf(pieces, 3);
  const CollectiveCall call = callOf(CollectiveOp::AllToAll, tensor, from, to);
  if (isAsynchronous(tensor.device()))
    return exchangeOnGpus(call, tensor, [&](ArrayRef<Tensor> all) {
      checkPieces(from, pieces);
      return gatherOn(tensor.device(), shardEach(all, to, ranges), from, pieces);
    });
  Tensor result;
  exchange({call, tensor.contiguous(), {}, {}}, [&] {
    checkPieces(from, pieces);
    result = at::empty(sizes, tensor.options());
    const int64_t major = std::min(from, to), minor = std::max(from, to);
    const Grid target(result, major, minor);
    int64_t gathered = 0;
    for (size_t i = 0; i < pieces.size(); i += 3) {
      const Tensor &source = group.slots[pieces[i]].args.tensor;
      const Window piece{pieces[i + 1], gathered, pieces[i + 2]};
      int64_t kept = 0;
      for (size_t j = 0; j < ranges.size(); j += 2) {
        const Window range{ranges[j], kept, ranges[j + 1]};
        copyWindow(bytesOf(source), Grid(source, major, minor),
                   static_cast<char *>(result.mutable_data_ptr()), target, productOf(sizes, 0, major),
                   from < to ? piece : range, from < to ? range : piece);
        kept += ranges[j + 1];
      }
      gathered += pieces[i + 2];
    }
  });
  return result;
}

Tensor LocalGroup::Member::broadcast(const Tensor &tensor, int64_t root) {
  TORCH_CHECK(root >= 0 && root < int64_t(group.slots.size()), "found root ", root,
              ", expected one of the group's ", group.slots.size(), " ranks");
  const CollectiveCall call = callOf(CollectiveOp::Broadcast, tensor, -1, root);
  if (isAsynchronous(tensor.device()))
    return exchangeOnGpus(call, tensor,
                          [&](ArrayRef<Tensor> all) { return sumOn(tensor.device(), all[root]); });
  Tensor result = at::empty(tensor.sizes(), tensor.options());
  exchange({call, tensor.contiguous(), {}, {}}, [&] {
    if (result.nbytes() > 0)
      std::memcpy(result.mutable_data_ptr(), bytesOf(group.slots[root].args.tensor), result.nbytes());
  });
  return result;
}

} // namespace cleave::runtime
