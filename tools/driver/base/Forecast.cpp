//===- Forecast.cpp - Predicted times and memory of a plan ----------------===//
#include "tools/driver/base/Forecast.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanQueries.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The plan's schedule without the micro-batches that the traced batch has no samples for: a run skips them.
/// The first data-parallel rank has the most.
static plan::Schedule tableOf(const plan::Plan &plan) {
  plan::Schedule table = scheduleOf(plan, 0);
  const plan::Signature &signature = *plan.signatures[0];
  if (signature.batch < 0)
    return table;
  const int64_t samples = std::max<int64_t>(signature.symbols[signature.batch]->traced, 1);
  const uint64_t all = std::min<uint64_t>(plan::microbatchesOfAll(plan, table), samples);
  table.microbatches = llvm::divideCeil(all, plan.mesh->dp);
  for (auto [rank, own] : llvm::enumerate(table.ranks))
    llvm::erase_if(own->actions, [&, rank = uint32_t(rank)](auto &action) {
      return plan::globalMicrobatch(plan, rank, action->microbatch) >= all;
    });
  return table;
}

/// Plans are untrusted, so sums of their predictions must stay in range.
static constexpr double kMaxStepSeconds = 1e9;
static constexpr int64_t kMaxBytes = int64_t(1) << 44;
static constexpr char kRemedy[] = "compile it again";

static Error impossible(StringRef name, StringRef what, StringRef remedy = kRemedy) {
  return llvm::createStringError(name + ": predicts more than " + what + "; " + remedy);
}

Error checkSeconds(double seconds, StringRef name, StringRef remedy) {
  return seconds <= kMaxStepSeconds ? Error::success() : impossible(name, "1e9 seconds in all", remedy);
}

/// Costs from the plan's predictions.
static Expected<PipelineCosts> costsOf(const plan::Plan &plan, StringRef name) {
  PipelineCosts costs;
  if (!plan.link || plan.predictions.size() != plan.stages.size() * plan.mesh->tp)
    return llvm::createStringError(
        name + ": does not say what its micro-batches take; compile it again with this version");
  for (const auto &rank : scheduleOf(plan, 0).ranks)
    for (const auto &action : rank->actions)
      if (action->kind != plan::ActionKind::Forward && action->kind != plan::ActionKind::Send &&
          action->kind != plan::ActionKind::Recv)
        return llvm::createStringError(
            name + ": has backward passes, whose times plans of this version do not predict");
  costs.ranksPerDeviceGroup = plan.mesh->dp * plan.mesh->tp;
  costs.tensorParallelSize = plan.mesh->tp;
  for (const auto &stage : plan.stages) {
    StageCost &cost = costs.stages.emplace_back();
    for (uint32_t position = 0; position < costs.ranksPerDeviceGroup; ++position) {
      const plan::Prediction &prediction = *predictionOf(plan, stage->index, position % plan.mesh->tp);
      if (std::max(prediction.weight_bytes, prediction.activation_bytes) > kMaxBytes)
        return impossible(name, "2^44 bytes in a stage");
      cost.forward = std::max(cost.forward, prediction.microbatch_seconds);
      cost.activationBytes = std::max(cost.activationBytes, prediction.activation_bytes);
      costs.activationOverrides[{stage->index, position}] = prediction.activation_bytes;
    }
  }
  const std::vector<int64_t> sizes = microbatchSizes(plan, 0);
  for (const plan::Transfer &transfer : plan::transfers(plan, 0))
    costs.transfers.push_back({transfer.from, transfer.to, bytesOf(plan, 0, transfer, sizes)});
  for (const TransferSize &transfer : costs.transfers)
    if (transfer.bytes > kMaxBytes)
      return impossible(name, "2^44 bytes between two stages");
  auto linkOf = [](const plan::LinkSpeed &speed) {
    return Link{speed.latency_seconds, speed.bytes_per_second};
  };
  costs.link = linkOf(*plan.link);
  for (const auto &unlike : plan.link_overrides)
    costs.linkOverrides[{unlike->from, unlike->to}] = linkOf(*unlike->speed);
  return costs;
}

static std::vector<DeviceForecast> devicesOf(const plan::Plan &plan, const SimulationResult &simulation) {
  std::vector<DeviceForecast> devices;
  for (auto [rank, found] : llvm::enumerate(simulation.ranks)) {
    DeviceForecast device{{}, found.busySeconds,        simulation.bubbleSeconds(rank), 0, 0,
                          {}, memoryLimitOf(plan, rank)};
    for (const auto &stage : plan.stages)
      if (llvm::is_contained(stage->ranks, rank)) {
        device.stages.push_back(stage->index);
        device.weightBytes += predictionOf(plan, stage->index, rank % plan.mesh->tp)->weight_bytes;
      }
    device.peakBytes = device.weightBytes + found.peakBytes;
    device.memory = memoryOverTime(found, device.weightBytes);
    devices.push_back(std::move(device));
  }
  return devices;
}

DeviceForecast sumOf(llvm::ArrayRef<DeviceForecast> devices) {
  DeviceForecast sum{};
  for (const DeviceForecast &device : devices) {
    sum.busySeconds += device.busySeconds;
    sum.idleSeconds += device.idleSeconds;
    sum.weightBytes += device.weightBytes;
  }
  return sum;
}

Expected<PlanForecast> forecastOf(const plan::Plan &plan, StringRef name) {
  PlanForecast result;
  if (Error error = costsOf(plan, name).moveInto(result.costs))
    return error;
  result.schedule = tableOf(plan);
  if (Error error = simulate(result.schedule, result.costs).moveInto(result.simulation))
    return llvm::createStringError(name + ": " + toString(std::move(error)));
  if (Error error = checkSeconds(result.simulation.seconds, name, kRemedy))
    return error;
  result.devices = devicesOf(plan, result.simulation);
  return result;
}

} // namespace cleave
