//===- ValidateCaptures.cpp - Checks of capture points --------------------===//
#include "codegen/plan/ValidateParts.h"
#include <set>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

static constexpr char kNotThere[] = "its program or slot is not there";

namespace {
/// After how many instructions of block 0 a slot holds its value: from `begin` to `end`.
struct Lifetime {
  uint64_t begin = UINT64_MAX, end = UINT64_MAX;
  /// It holds the result of an instruction that runs in each request.
  bool isComputed = false;
};
} // namespace

/// By slot. The program is valid, so that each slot is written and released once.
static std::vector<Lifetime> lifetimesOf(const Program &program) {
  std::vector<Lifetime> lifetimes(program.slots);
  for (const auto &constant : program.constants)
    lifetimes[constant->slot].begin = 0;
  for (const auto &size : program.sizes)
    lifetimes[size->slot].begin = 0;
  for (const auto &weight : program.weights)
    lifetimes[weight->slot].begin = 0;
  for (const auto &input : program.inputs)
    lifetimes[input->slot].begin = 0;
  for (const auto &[i, instruction] : llvm::enumerate(program.blocks[0]->instructions)) {
    for (uint32_t slot : instruction->results) {
      lifetimes[slot].begin = i + 1;
      lifetimes[slot].isComputed = i >= program.setup;
    }
    for (uint32_t slot : instruction->releases)
      lifetimes[slot].end = i;
  }
  return lifetimes;
}

/// The parts of a split dimension must be all of it; they may overlap.
static Error checkCover(const Twine &where, int64_t size, std::vector<std::pair<int64_t, int64_t>> parts) {
  llvm::sort(parts);
  int64_t end = 0;
  for (auto [offset, count] : parts) {
    if (offset > end)
      break;
    end = std::max(end, offset + count);
  }
  return end == size
             ? Error::success()
             : invalid(where, "index " + Twine(end) + " of the dimension that ranks split is on none");
}

/// Checks what the ranks have of the value.
static Error checkRanges(const std::string &where, const CapturePoint &point) {
  const std::vector<int64_t> sizes = knownSizes(*point.type);
  std::vector<std::pair<int64_t, int64_t>> parts;
  const size_t dims = point.slots.front()->ranges.size();
  for (const auto &slot : point.slots) {
    if (slot->ranges.size() != dims || dims > 1 || (dims > 0 && point.partial))
      return invalid(where, "its ranks split several dimensions, or partial sums");
    if (Error error = partShape(where, sizes, slot->ranges).takeError())
      return error;
    if (dims == 0)
      continue;
    const DimRanges &ranges = *slot->ranges.front();
    if (ranges.dim != point.slots.front()->ranges.front()->dim)
      return invalid(where, "its ranks split several dimensions, or partial sums");
    for (auto [offset, count] : llvm::zip(ranges.offsets, ranges.sizes))
      parts.push_back({offset, count});
  }
  return dims == 0 ? Error::success()
                   : checkCover(where, sizes[point.slots.front()->ranges.front()->dim], std::move(parts));
}

static Error checkSlot(const std::string &where, const CapturePoint &point, const CaptureSlot &slot,
                       const Program &program, const std::vector<Lifetime> &lifetimes) {
  if (slot.slot >= lifetimes.size())
    return invalid(where, kNotThere);
  if (slot.after < program.setup || slot.after > program.blocks[0]->instructions.size())
    return invalid(where, "after " + Twine(slot.after) + " instructions, of a program of " +
                              Twine(program.blocks[0]->instructions.size()) + ", of which " +
                              Twine(program.setup) + " set it up");
  const Lifetime &lifetime = lifetimes[slot.slot];
  if (slot.after < lifetime.begin || slot.after > lifetime.end)
    return invalid(where, "slot " + Twine(slot.slot) + " holds nothing after " + Twine(slot.after) +
                              " instructions");
  if (point.writable && !lifetime.isComputed)
    return invalid(where, "slot " + Twine(slot.slot) + " can be written, but is no result of the program");
  return Error::success();
}

namespace {
/// What several points need to know.
struct Known {
  std::map<const Program *, std::vector<Lifetime>> lifetimes;
  /// By signature: its example sizes.
  std::map<uint32_t, std::vector<int64_t>> traced;
};
} // namespace

static Error checkCapturePoint(const Plan &plan, const ProgramTable &table, const CapturePoint &point,
                               Known &known) {
  const std::string where = "capture point '" + point.path + "'";
  if (point.port > CapturePort::MAX || hasNull(point.slots) || point.slots.size() != plan.mesh->tp)
    return invalid(where, "its port is unknown, or it has no slot on a tp rank");
  if (point.signature >= plan.signatures.size())
    return invalid(where, kNotThere);
  auto [traced, isFirst] = known.traced.try_emplace(point.signature);
  if (isFirst)
    traced->second = tracedSizes(*plan.signatures[point.signature]);
  if (Error error = checkType(where, point.type.get(), traced->second))
    return error;
  for (auto [tpRank, slot] : llvm::enumerate(point.slots)) {
    auto program = table.find({point.signature, point.stage, tpRank, Phase::Forward});
    if (slot->tp_rank != tpRank || program == table.end())
      return invalid(where, kNotThere);
    auto [lifetimes, isNew] = known.lifetimes.try_emplace(program->second);
    if (isNew)
      lifetimes->second = lifetimesOf(*program->second);
    if (Error error = checkSlot(where, point, *slot, *program->second, lifetimes->second))
      return error;
  }
  return checkRanges(where, point);
}

Error checkCapturePoints(const Plan &plan, const ProgramTable &table) {
  Known known;
  std::set<std::tuple<uint32_t, std::string, CapturePort, uint32_t, uint32_t>> found;
  for (const auto &point : plan.capture_points) {
    if (!point)
      return invalid("capture points", "an entry is missing");
    if (Error error = checkName("capture points", point->path))
      return error;
    if (Error error = checkCapturePoint(plan, table, *point, known))
      return error;
    if (!found.insert({point->signature, point->path, point->port, point->index, point->call}).second)
      return invalid("capture point '" + point->path + "'", "there are two of call " + Twine(point->call));
  }
  return Error::success();
}

} // namespace cleave::plan
