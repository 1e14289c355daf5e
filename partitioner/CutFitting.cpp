//===- CutFitting.cpp - Cuts for devices with little memory ---------------===//
#include "partitioner/CutFitting.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave {

/// More than any device has, and small enough to be added up.
static constexpr int64_t kMostRoom = int64_t(1) << 60;

Rooms roomsOfFirst(const Machine &machine, uint32_t ranks, uint32_t width) {
  Rooms rooms;
  for (size_t rank = 0; rank < ranks; ++rank)
    rooms.push_back(machine.devices[std::min(rank * width, machine.devices.size() - 1)].memoryBytes);
  return rooms;
}

std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<RankMemory> ranks, RoomsRef rooms) {
  std::vector<int64_t> bytes;
  for (const RankMemory &rank : ranks)
    bytes.push_back(rank.bytes());
  return shortageOf(bytes, rooms);
}

/// What each stage may hold of weights where all else that its rank holds stays as it is.
std::vector<int64_t> CutFitting::roomForWeights(const StageCut &cut, llvm::ArrayRef<RankMemory> held,
                                                RoomsRef rooms) const {
  std::vector<int64_t> limits;
  for (auto [stage, own] : llvm::enumerate(cut.weightBytes)) {
    const RankMemory &rank = held[stage % rooms.size()];
    const int64_t room = rooms[stage % rooms.size()].value_or(kMostRoom);
    const int64_t forWeights = std::max<int64_t>(room - rank.others, 0);
    // Stages of one rank give up, or gain, together.
    if (forWeights >= rank.weights)
      limits.push_back(own + (forWeights - rank.weights));
    else
      limits.push_back(int64_t(double(own) / double(rank.weights) * double(forWeights)));
  }
  return limits;
}

CutFitting::Fitted CutFitting::fit(RoomsRef rooms) const {
  // Limits follow what the last cut holds; once that has not helped they only fall, so that there is an end.
  constexpr int kMostCuts = 10, kFree = 4;
  Fitted result;
  std::vector<int64_t> next;
  for (size_t stage = 0; stage < request.stages.size(); ++stage)
    next.push_back(rooms[stage % rooms.size()].value_or(kMostRoom));
  for (int count = 0; count < kMostCuts && next != result.weightLimits; ++count) {
    CutRequest tried = request;
    for (auto [stage, limit] : llvm::zip(tried.stages, next))
      stage.weightLimit = limit;
    result.weightLimits = next;
    auto cut = cutStages(model.graph, tried);
    if (!cut) {
      consumeError(cut.takeError());
      break;
    }
    const std::vector<RankMemory> held = memory.of(model, cut->stageOf, rooms.size());
    if (!shortageOf(held, rooms)) {
      result.cut = std::move(*cut);
      break;
    }
    next = roomForWeights(*cut, held, rooms);
    if (count >= kFree)
      for (auto [limit, before] : llvm::zip(next, result.weightLimits))
        limit = std::min(limit, before);
  }
  return result;
}

/// Of the rank that has least; nothing where none is limited.
static std::optional<int64_t> leastOf(RoomsRef rooms) {
  std::optional<int64_t> least;
  for (const auto &room : rooms)
    if (room)
      least = std::min(least.value_or(*room), *room);
  return least;
}

bool mayFit(const CutMemory &memory, const ModelGraph &model, RoomsRef rooms) {
  const auto least = leastOf(rooms);
  return !least || memory.least(model, rooms) <= *least;
}

/// With none where there is least.
Rooms CutFitting::othersRooms() const {
  const std::optional<int64_t> least = leastOf(rooms);
  Rooms others = rooms;
  for (auto &room : others)
    if (room && room == least)
      room = 0;
  return others;
}

static Rooms atLeast(int64_t least, Rooms rooms) {
  for (auto &room : rooms)
    if (room)
      room = std::max(*room, least);
  return rooms;
}

std::optional<int64_t> CutFitting::leastRoom() const {
  constexpr int64_t kParts = 256;
  const Rooms others = othersRooms();
  // What ranks hold that have too little.
  auto heldOf = [&](const StageCut &cut) {
    const auto most = shortageOf(memory.of(model, cut.stageOf, rooms.size()), others);
    return most ? most->bytes : 0;
  };
  const Fitted fastest = fit(atLeast(kMostRoom, others));
  if (!fastest.cut)
    return std::nullopt;
  // It has no weights above that, and so is the fastest with that limit, too.
  int64_t enough = heldOf(*fastest.cut), tooLittle = memory.least(model, others) - 1;
  while (enough - tooLittle > std::max<int64_t>(enough / kParts, 1)) {
    const int64_t middle = tooLittle + (enough - tooLittle) / 2;
    const Fitted fitted = fit(atLeast(middle, others));
    if (!fitted.cut) {
      tooLittle = middle;
      continue;
    }
    enough = middle;
    const int64_t held = heldOf(*fitted.cut);
    if (held < middle && fit(atLeast(held, others)).cut)
      enough = held;
  }
  return enough;
}

} // namespace cleave
