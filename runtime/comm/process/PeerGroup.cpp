//===- PeerGroup.cpp - Collectives between processes ----------------------===//
#include "runtime/comm/process/PeerGroup.h"
#include "collectives/Collectives.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/RankSum.h"
#include "runtime/device/DeviceCollectives.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <cstring>

namespace cleave::runtime {

using at::IntArrayRef;
using at::Tensor;

/// Bytes of a first-round message.
static constexpr size_t kFirst = 64 << 10;
/// Largest dimension: sizes of all ranks can be added without overflow.
static constexpr int64_t kMaxSize = int64_t(1) << 40;

PeerGroup::PeerGroup(Transport &transport, std::vector<uint32_t> ids, uint32_t index,
                     DeviceProcessGroup *devices)
    : transport(transport), ranks(std::move(ids)), size(ranks.size()), index(index), devices(devices),
      receivedArgs(size), peerArgs(size) {
  sentArgs.reserve(kFirst);
  for (uint32_t rank = 0; rank < size; ++rank)
    if (rank != index)
      receivedArgs[rank].resize(kFirst);
}

std::string PeerGroup::awaited() const {
  const int64_t rank = waitsFor;
  if (rank == kNobody)
    return "";
  const std::string who = rank == kDevices ? "the GPUs of ranks " + std::to_string(ranks.front()) + " to " +
                                                 std::to_string(ranks.back())
                                           : "rank " + std::to_string(rank);
  return who + " in spmd::" + nameOf(current);
}

void PeerGroup::awaitAll(std::vector<std::unique_ptr<PendingMessage>> &messages,
                         const std::vector<uint32_t> &others) {
  for (size_t i = 0; i < messages.size(); ++i) {
    waitsFor = others[i];
    messages[i]->wait();
  }
  waitsFor = kNobody;
}

Tensor PeerGroup::onDevices(CollectiveOp operation, llvm::function_ref<Tensor()> work) {
  current = operation;
  waitsFor = kDevices;
  Tensor result = work();
  waitsFor = kNobody;
  return result;
}

void PeerGroup::exchangePartsOnDevices(llvm::function_ref<Tensor(uint32_t)> of,
                                       llvm::function_ref<Tensor(uint32_t)> into) {
  std::vector<Tensor> given(size), taken(size);
  for (uint32_t rank = 0; rank < size; ++rank)
    if (rank != index) {
      given[rank] = of(rank);
      taken[rank] = into(rank);
    }
  const Tensor &other = taken[index == 0 ? 1 : 0];
  given[index] = taken[index] = at::empty({0}, other.options());
  onDevices(current, [&] {
    devices->allToAll(given, taken, other.device());
    return Tensor();
  });
}

void PeerGroup::exchangeParts(llvm::function_ref<Tensor(uint32_t)> of,
                              llvm::function_ref<Tensor(uint32_t)> into) {
  if (devices)
    return exchangePartsOnDevices(of, into);
  // Keeps the tensors alive until the messages have arrived.
  std::vector<Tensor> given, taken;
  std::vector<std::unique_ptr<PendingMessage>> messages;
  std::vector<uint32_t> others;
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (rank == index)
      continue;
    if (Tensor tensor = into(rank); tensor.numel() > 0) {
      messages.push_back(
          transport.receive(ranks[rank], Tag::Collective, tensor.mutable_data_ptr(), tensor.nbytes()));
      others.push_back(ranks[rank]);
      taken.push_back(tensor);
    }
    if (Tensor tensor = of(rank); tensor.numel() > 0) {
      messages.push_back(
          transport.send(ranks[rank], Tag::Collective, tensor.const_data_ptr(), tensor.nbytes()));
      others.push_back(ranks[rank]);
      given.push_back(tensor);
    }
  }
  awaitAll(messages, others);
}

//===- The first round ----------------------------------------------------===//
//
//   | operation u8 | dtype u8 | 6 × i64: dim, splitDimOrRoot, bytes inlined or -1, numbers of sizes, of
//     pieces, of ranges | sizes … | pieces … | ranges … | bytes of the tensor, if inlined |

namespace {
struct Head {
  CollectiveOp operation;
  uint8_t dtype;
  int64_t dim, splitDimOrRoot, inlined, sizes, pieces, ranges;
  int64_t numbers() const { return sizes + pieces + ranges; }
};
} // namespace

static void append(std::vector<char> &bytes, const void *data, size_t count) {
  bytes.insert(bytes.end(), static_cast<const char *>(data), static_cast<const char *>(data) + count);
}

void PeerGroup::encodeArgs(const CollectiveCall &call, const Tensor &tensor, IntArrayRef pieces,
                           IntArrayRef ranges) {
  Head head{};
  head.operation = call.operation;
  head.dtype = uint8_t(call.dtype);
  head.dim = call.dim;
  head.splitDimOrRoot = call.splitDimOrRoot;
  head.sizes = call.sizes.size();
  head.pieces = pieces.size();
  head.ranges = ranges.size();
  const size_t used = sizeof head + head.numbers() * sizeof(int64_t);
  TORCH_CHECK(used <= kFirst, "found ", pieces.size() / 3, " pieces and ", ranges.size() / 2,
              " ranges, expected fewer for processes to tell each other");
  head.inlined = !devices && tensor.nbytes() <= kFirst - used ? int64_t(tensor.nbytes()) : -1;
  sentArgs.clear();
  append(sentArgs, &head, sizeof head);
  append(sentArgs, call.sizes.data(), call.sizes.size() * sizeof(int64_t));
  append(sentArgs, pieces.data(), pieces.size() * sizeof(int64_t));
  append(sentArgs, ranges.data(), ranges.size() * sizeof(int64_t));
  if (head.inlined > 0)
    append(sentArgs, tensor.const_data_ptr(), tensor.nbytes());
}

PeerGroup::CollectiveArgs PeerGroup::read(const std::vector<char> &message) const {
  Head head;
  std::memcpy(&head, message.data(), sizeof head);
  const int64_t room = int64_t(kFirst - sizeof head) / int64_t(sizeof(int64_t));
  auto isCount = [&](int64_t count) { return count >= 0 && count <= room; };
  TORCH_CHECK(isCount(head.sizes) && isCount(head.pieces) && isCount(head.ranges) && head.numbers() <= room &&
                  head.operation <= CollectiveOp::Broadcast &&
                  dtypeOf(c10::ScalarType(head.dtype)) != plan::DType::Unknown,
              "found another message than a call of the group");
  std::vector<int64_t> numbers(head.numbers());
  // Where there are no numbers the vector has no memory, which memcpy must not be given.
  std::copy_n(message.data() + sizeof head, numbers.size() * sizeof(int64_t),
              reinterpret_cast<char *>(numbers.data()));
  IntArrayRef all(numbers);
  CollectiveArgs args{{head.operation, c10::ScalarType(head.dtype), c10::DimVector(all.slice(0, head.sizes)),
                       head.dim, head.splitDimOrRoot},
                      all.slice(head.sizes, head.pieces).vec(),
                      all.slice(head.sizes + head.pieces).vec()};
  for (int64_t size : args.call.sizes)
    TORCH_CHECK(size >= 0 && size <= kMaxSize, "found a tensor of impossible size");
  const size_t used = sizeof head + numbers.size() * sizeof(int64_t);
  if (head.inlined >= 0) {
    const Tensor shape = at::empty(args.call.sizes, at::TensorOptions(args.call.dtype).device(at::kMeta));
    TORCH_CHECK(size_t(head.inlined) == shape.nbytes() && size_t(head.inlined) <= kFirst - used,
                "found another tensor than its rank tells of");
    args.inlined = message.data() + used;
  }
  return args;
}

/// Calls `work` on the arguments of rank `rank`; its exceptions then name the rank.
template <typename Work> static auto ofRank(uint32_t rank, Work work) {
  try {
    return work();
  } catch (const std::exception &exception) {
    TORCH_CHECK(false, "a message of rank ", rank, ": ", messageOf(exception));
  }
}

void PeerGroup::checkRequestedParts(const CollectiveArgs &args) const {
  const CollectiveCall &call = args.call;
  const int64_t dims = int64_t(call.sizes.size());
  auto isDim = [&](int64_t dim) { return dim >= 0 && dim < dims; };
  const bool exchanges = call.operation == CollectiveOp::AllToAll;
  int64_t gathered = 0, scattered = 0;
  if (exchanges || call.operation == CollectiveOp::AllGather) {
    TORCH_CHECK(isDim(call.dim), "found dimension ", call.dim, " of ", dims);
    for (const CollectiveArgs &source : peerArgs)
      gathered += source.call.sizes[call.dim];
  }
  if (exchanges || call.operation == CollectiveOp::ReduceScatter) {
    const int64_t along = exchanges ? call.splitDimOrRoot : call.dim;
    TORCH_CHECK(isDim(along), "found dimension ", along, " of ", dims);
    scattered = call.sizes[along];
  }
  TORCH_CHECK(extentOf(args.pieces, 3) <= gathered && extentOf(args.ranges, 2) <= scattered,
              "found pieces of ", extentOf(args.pieces, 3), " positions and ranges of ",
              extentOf(args.ranges, 2), ", expected no more than the ", gathered, " and ", scattered,
              " that there are");
}

//===- Parts --------------------------------------------------------------===//

/// The ranges that pieces take from rank `source`.
static std::vector<int64_t> rangesOf(IntArrayRef pieces, uint32_t source) {
  std::vector<int64_t> ranges;
  for (size_t i = 0; i < pieces.size(); i += 3)
    if (pieces[i] == source)
      ranges.insert(ranges.end(), {pieces[i + 1], pieces[i + 2]});
  return ranges;
}

/// The ranges along `dim`; `tensor` itself if they cover all of it.
static Tensor rangesAlong(const Tensor &tensor, int64_t dim, IntArrayRef ranges) {
  const bool isWhole = ranges.size() == 2 && ranges[0] == 0 && ranges[1] == tensor.size(dim);
  return isWhole ? tensor : shard(tensor, dim, ranges);
}

Tensor PeerGroup::partOf(const Tensor &tensor, uint32_t source, const CollectiveArgs &args,
                         uint32_t destination) const {
  const CollectiveCall &call = args.call;
  switch (call.operation) {
  case CollectiveOp::AllReduce: {
    auto [begin, end] = chunkOf(tensor.numel(), size, destination);
    return tensor.view({-1}).slice(0, begin, end);
  }
  case CollectiveOp::ReduceScatter:
    return rangesAlong(tensor, call.dim, args.ranges);
  case CollectiveOp::AllGather:
    return rangesAlong(tensor, call.dim, rangesOf(args.pieces, source));
  case CollectiveOp::AllToAll:
    return rangesAlong(rangesAlong(tensor, call.dim, rangesOf(args.pieces, source)), call.splitDimOrRoot,
                       args.ranges);
  case CollectiveOp::Broadcast:
    return source == uint32_t(call.splitDimOrRoot) ? tensor : at::empty({0}, tensor.options());
  }
  TORCH_CHECK(false, "found an operation that groups do not have");
}

std::vector<Tensor> PeerGroup::exchange(CollectiveCall call, const Tensor &tensor, IntArrayRef pieces,
                                        IntArrayRef ranges) {
  current = call.operation;
  encodeArgs(call, tensor, pieces, ranges);
  std::vector<std::unique_ptr<PendingMessage>> messages;
  std::vector<uint32_t> others;
  for (uint32_t rank = 0; rank < size; ++rank)
    if (rank != index) {
      // A message may be shorter than that.
      std::fill_n(receivedArgs[rank].begin(), sizeof(Head), 0);
      messages.push_back(transport.receive(ranks[rank], Tag::Collective, receivedArgs[rank].data(),
                                           receivedArgs[rank].size()));
      messages.push_back(transport.send(ranks[rank], Tag::Collective, sentArgs.data(), sentArgs.size()));
      others.insert(others.end(), 2, ranks[rank]);
    }
  awaitAll(messages, others);
  for (uint32_t rank = 0; rank < size; ++rank)
    peerArgs[rank] = ofRank(ranks[rank], [&] { return read(rank == index ? sentArgs : receivedArgs[rank]); });
  verifyCollectiveMatch(ranks, [&](uint32_t rank) -> const CollectiveCall & { return peerArgs[rank].call; });
  for (uint32_t rank = 0; rank < size; ++rank)
    ofRank(ranks[rank], [&] { checkRequestedParts(peerArgs[rank]); });
  // Whether there is a second round depends on the arguments of all ranks, so all ranks decide alike.
  bool isInlined = true;
  for (const CollectiveArgs &args : peerArgs)
    isInlined &= args.inlined != nullptr;
  auto tensorOf = [&](uint32_t rank) {
    return rank == index ? tensor
           : isInlined ? at::from_blob(const_cast<char *>(peerArgs[rank].inlined), peerArgs[rank].call.sizes,
                                       tensor.options())
                       : at::empty(peerArgs[rank].call.sizes, tensor.options().device(at::kMeta));
  };
  std::vector<Tensor> parts;
  for (uint32_t rank = 0; rank < size; ++rank) {
    Tensor part = isInlined && call.operation == CollectiveOp::AllReduce
                      ? tensorOf(rank)
                      : partOf(tensorOf(rank), rank, peerArgs[index], index);
    parts.push_back(part.is_meta() ? at::empty(part.sizes(), tensor.options()) : part);
  }
  if (!isInlined)
    exchangeParts([&](uint32_t rank) { return partOf(tensor, index, peerArgs[rank], rank).contiguous(); },
                  [&](uint32_t rank) { return parts[rank]; });
  return parts;
}

//===- Operations ---------------------------------------------------------===//

void PeerGroup::sumInto(const Tensor &result, const std::vector<Tensor> &parts) const {
  if (result.numel() == 0)
    return;
  std::vector<const char *> inputs;
  for (const Tensor &part : parts)
    inputs.push_back(static_cast<const char *>(part.const_data_ptr()));
  char *sum = static_cast<char *>(result.mutable_data_ptr());
  sumInOrder(result.scalar_type(), inputs, llvm::ArrayRef(sum), result.numel());
}

Tensor PeerGroup::allReduce(const Tensor &given) {
  checkSummable(given.scalar_type());
  if (devices) {
    // NCCL does not support int16, and adds bools differently.
    const c10::ScalarType type = given.scalar_type();
    const bool isNarrow = type == at::kShort || type == at::kBool;
    return onDevices(CollectiveOp::AllReduce,
                     [&] { return devices->allReduce(isNarrow ? given.to(at::kInt) : given).to(type); });
  }
  const Tensor tensor = given.contiguous();
  const std::vector<Tensor> parts = exchange(callOf(CollectiveOp::AllReduce, tensor), tensor, {}, {});
  Tensor result = at::empty(tensor.sizes(), tensor.options());
  if (tensor.numel() == 0)
    return result;
  const bool isWhole = parts[index].numel() == tensor.numel();
  auto chunk = [&](uint32_t rank) {
    auto [begin, end] = chunkOf(tensor.numel(), size, rank);
    return result.view({-1}).slice(0, begin, end);
  };
  sumInto(isWhole ? result : chunk(index), parts);
  if (!isWhole)
    exchangeParts([&](uint32_t) { return chunk(index); }, chunk);
  return result;
}

Tensor PeerGroup::reduceScatter(const Tensor &given, int64_t dim, IntArrayRef ranges) {
  checkSummable(given.scalar_type());
  const Tensor tensor = given.contiguous();
  const std::vector<Tensor> parts =
      exchange(callOf(CollectiveOp::ReduceScatter, tensor, dim), tensor, {}, ranges);
  if (devices)
    return sumOn(tensor.device(), parts);
  Tensor result = at::empty(sizesWith(tensor, dim, extentOf(ranges, 2)), tensor.options());
  sumInto(result, parts);
  return result;
}

void PeerGroup::checkPieces(IntArrayRef pieces) const {
  for (size_t i = 0; i < pieces.size(); i += 3)
    TORCH_CHECK(pieces[i] >= 0 && pieces[i] < int64_t(size), "found a piece of rank ", pieces[i],
                ", expected one of the group's ", size);
}

/// Concatenates the pieces, each from its rank's part.
static Tensor join(const std::vector<Tensor> &parts, int64_t dim, IntArrayRef pieces, IntArrayRef sizes) {
  Tensor result = at::empty(sizes, parts.front().options());
  std::vector<int64_t> taken(parts.size());
  int64_t done = 0;
  for (size_t i = 0; i < pieces.size(); i += 3) {
    const int64_t rank = pieces[i], count = pieces[i + 2];
    result.narrow(dim, done, count).copy_(parts[rank].narrow(dim, taken[rank], count));
    done += count;
    taken[rank] += count;
  }
  return result;
}

Tensor PeerGroup::allGather(const Tensor &given, int64_t dim, IntArrayRef pieces) {
  const std::vector<int64_t> sizes = sizesWith(given, dim, extentOf(pieces, 3));
  checkPieces(pieces);
  const Tensor tensor = given.contiguous();
  return join(exchange(callOf(CollectiveOp::AllGather, tensor, dim), tensor, pieces, {}), dim, pieces, sizes);
}

Tensor PeerGroup::allToAll(const Tensor &given, int64_t from, IntArrayRef pieces, int64_t to,
                           IntArrayRef ranges) {
  std::vector<int64_t> sizes = sizesWith(given, to, extentOf(ranges, 2));
  TORCH_CHECK(from >= 0 && from < given.dim() && from != to, "found dimensions ", from, " and ", to,
              ", expected two of the tensor's ", given.dim());
  sizes[from] = extentOf(pieces, 3);
  checkPieces(pieces);
  const Tensor tensor = given.contiguous();
  return join(exchange(callOf(CollectiveOp::AllToAll, tensor, from, to), tensor, pieces, ranges), from,
              pieces, sizes);
}

Tensor PeerGroup::broadcast(const Tensor &given, int64_t root) {
  TORCH_CHECK(root >= 0 && root < int64_t(size), "found root ", root, ", expected one of the group's ", size,
              " ranks");
  if (devices)
    return onDevices(CollectiveOp::Broadcast, [&] { return devices->broadcast(given, uint32_t(root)); });
  const Tensor tensor = given.contiguous();
  return exchange(callOf(CollectiveOp::Broadcast, tensor, -1, root), tensor, {}, {})[root].clone();
}

} // namespace cleave::runtime
