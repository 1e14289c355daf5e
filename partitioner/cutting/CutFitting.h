//===- CutFitting.h - Cuts for devices with little memory -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_CUTFITTING_H
#define CLEAVE_PARTITIONER_CUTTING_CUTFITTING_H

#include "partitioner/cost/ModelGraph.h"
#include "partitioner/cutting/KnownCuts.h"

namespace cleave {

/// Cuts along program order alone: exact cuts of hundreds of operators take a second each.
inline constexpr SearchLimits kProgramOrder{/*downsets=*/0, /*work=*/0};

/// … and of exact cuts within limits that differ from stage to stage: a search sees little then that it need
/// not follow.
inline constexpr uint64_t kStepsWithin = 10'000'000;

/// What a device of a pipeline rank holds at its peak: the weights of all its stages, and the most that lives
/// beside them.
struct RankMemory {
  int64_t weights = 0, others = 0;
  int64_t bytes() const { return weights + others; }
};

/// By rank: bytes of a device; nothing of one that is not limited.
using Rooms = std::vector<std::optional<int64_t>>;
using RoomsRef = llvm::ArrayRef<std::optional<int64_t>>;

/// Where they hold more than they have room for.
std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<RankMemory> ranks, RoomsRef rooms);

/// What ranks hold of cuts of one function, at micro-batches of one size. Stage s of a cut is on rank s mod
/// ranks.
class CutMemory {
public:
  virtual ~CutMemory() = default;
  /// By rank, of its tensor rank that holds most, as a plan predicts it.
  virtual std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                     uint32_t ranks) const = 0;
  /// Some, of which one holds most.
  virtual std::vector<uint32_t> tensorRanks() const { return {0}; }
  /// Whatever the cut, ranks that have less need so many bytes or more, beside the others with what they
  /// have. No more than the least room: nothing says that they lack any.
  virtual int64_t least(const ModelGraph &model, RoomsRef rooms) const = 0;
};

/// Of the largest of those devices of each rank of a pipeline (PipelinePlaces) of which one holds most: what
/// has no room there has none.
/// Of data ranks, which hold the same, the device that has least.
Rooms roomsOfMost(const CutMemory &memory, const Machine &machine, uint32_t ranks, uint32_t tensorRanks,
                  uint32_t dataRanks = 1);

/// False: no cut has room.
bool mayFit(const CutMemory &memory, const ModelGraph &model, RoomsRef rooms);

/// Cuts along program order whose ranks have room for what they hold.
class CutFitting {
public:
  /// All must outlive it.
  /// \param request  limits of weights are left out.
  /// \param rooms    of ranks, among which stages are dealt out in turn.
  /// \param cuts     of the model's graph.
  CutFitting(const ModelGraph &model, CutRequest request, Rooms rooms, const CutMemory &memory,
             KnownCuts &cuts)
      : model(model), memory(memory), cuts(cuts), exactLimits(request.limits), request(std::move(request)),
        rooms(std::move(rooms)) {
    this->request.limits = kProgramOrder;
  }

  struct Fitted {
    /// By stage: with these, and so many steps, the cut is this one.
    std::vector<int64_t> weightLimits;
    /// None: along program order.
    uint64_t steps = 0;
    /// One of the known cuts. Null where none was found; the limits are then the last that were tried.
    const StageCut *cut = nullptr;
  };
  /// The fastest cut first; where ranks have no room for what they hold of it, the fastest one whose weights
  /// leave room for what is beside them in the one before, and so on.
  Fitted fit() const { return fit(rooms); }

  /// A cut, and what the devices hold of it that have least.
  struct Least {
    int64_t bytes;
    Fitted fitted;
  };
  /// The one for which these devices need least memory, beside the others with what they have: by bisection
  /// to a 256th, as if there were one for all larger memories, too, and from there on as long as a byte less
  /// has one, exact cuts among them. Nothing where no memory is enough. What these devices have is no matter.
  std::optional<Least> leastRoom() const;
  /// Of that at the least, as far as it can be told without a cut.
  int64_t leastBound() const { return memory.least(model, othersRooms()); }

private:
  Fitted fit(RoomsRef rooms) const;
  /// … or the exact cut within the limits that were tried last, or with room for weights alone.
  Fitted fitInAnyOrder(RoomsRef rooms) const;
  Fitted exactWithin(RoomsRef rooms, std::vector<int64_t> weightLimits, uint64_t steps) const;
  std::vector<int64_t> roomOfStages(RoomsRef rooms) const;
  Rooms othersRooms() const;
  std::vector<int64_t> roomForWeights(const StageCut &cut, llvm::ArrayRef<RankMemory> held,
                                      RoomsRef rooms) const;

  const ModelGraph &model;
  const CutMemory &memory;
  KnownCuts &cuts;
  const SearchLimits exactLimits;
  CutRequest request;
  Rooms rooms;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_CUTFITTING_H
