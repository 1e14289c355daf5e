//===- SimulateTraining.cpp - `cleave simulate --train` -------------------===//
#include "tools/cleave/SimulateTraining.h"
#include "codegen/plan/text/Printable.h"
#include "tools/cleave/ForecastJson.h"
#include "tools/cleave/run/TraceFile.h"
#include "tools/cleave/text/Candidates.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using llvm::formatv;

static double bubbleOf(const TrainingForecast &report, uint32_t rank) {
  const SimulationResult &simulation = report.pipeline.simulation;
  return simulation.seconds > 0 ? simulation.bubbleSeconds(rank) / simulation.seconds : 0;
}

static uint32_t devicesOfRank(const TrainingForecast &report) {
  return report.configuration.dataParallelSize * report.configuration.tensorParallelSize;
}

/// The stages of one pipeline rank.
static llvm::SmallVector<uint32_t> stagesOf(const TrainingForecast &report, uint32_t rank) {
  llvm::SmallVector<uint32_t> stages;
  for (uint32_t stage = rank; stage < report.pipeline.training.size();
       stage += report.configuration.pipelineParallelSize)
    stages.push_back(stage);
  return stages;
}

static double meanBubble(const TrainingForecast &report) {
  double sum = 0;
  for (uint32_t rank = 0; rank < report.configuration.pipelineParallelSize; ++rank)
    sum += bubbleOf(report, rank);
  return sum / report.configuration.pipelineParallelSize;
}

/// Recomputed activations count throughout.
static std::vector<MemoryStep> memoryOf(const TrainingForecast &report, uint32_t rank) {
  const RankSimulation &simulated = report.pipeline.simulation.ranks[rank];
  return memoryOverTime(simulated, report.pipeline.peakBytes[rank] - simulated.peakBytes);
}

/// Seconds after the last backward pass: all-reduce of gradients over data-parallel ranks, and the update of
/// weights.
static double updateSeconds(const TrainingForecast &report) {
  return report.pipeline.seconds - report.pipeline.simulation.seconds;
}

static std::string namesOf(const TrainingForecast &report, uint32_t rank) {
  const uint32_t first = rank * devicesOfRank(report), last = first + devicesOfRank(report) - 1;
  return report.devices[first] + (first < last ? " to " + report.devices[last] : "");
}

std::string traceOf(const TrainingForecast &report) {
  std::vector<TraceRow> rows;
  for (auto [rank, simulated] : llvm::enumerate(report.pipeline.simulation.ranks)) {
    rows.push_back(traceRowOf(simulated, rank, namesOf(report, rank), memoryOf(report, rank)));
    rows.back().updateBegin = traceTime(report.pipeline.simulation.seconds);
    rows.back().updateEnd = traceTime(report.pipeline.seconds);
    rows.back().overlapsTransfers = true;
  }
  return formatTrace(rows, {});
}

llvm::json::Object toJson(const CompileOptions &, const TrainingForecast &report) {
  using llvm::json::Array;
  using llvm::json::Object;
  Array devices, stages;
  for (auto [device, name] : llvm::enumerate(report.devices)) {
    const uint32_t rank = device / devicesOfRank(report);
    devices.push_back(Object{{"name", name},
                             {"stages", Array(stagesOf(report, rank))},
                             {"busy_seconds", report.pipeline.simulation.ranks[rank].busySeconds},
                             {"idle_seconds", report.pipeline.simulation.bubbleSeconds(rank)},
                             {"bubble", bubbleOf(report, rank)},
                             {"state_bytes", report.pipeline.stateBytes[rank]},
                             {"peak_bytes", report.pipeline.peakBytes[rank]},
                             {"memory", toJson(memoryOf(report, rank))}});
  }
  for (auto [index, stage] : llvm::enumerate(report.pipeline.training))
    stages.push_back(Object{{"index", int64_t(index)},
                            {"forward_seconds", stage.forward},
                            {"input_gradient_seconds", stage.inputGradient},
                            {"weight_gradient_seconds", stage.weightGradient},
                            {"update_seconds", stage.update},
                            {"saved_bytes", stage.savedBytes},
                            {"recomputed_bytes", stage.recomputedBytes},
                            {"state_bytes", stage.stateBytes}});
  return Object{{"schedule", report.pipeline.schedule.name},
                {"mesh", Object{{"pp", report.configuration.pipelineParallelSize},
                                {"dp", report.configuration.dataParallelSize},
                                {"tp", report.configuration.tensorParallelSize}}},
                {"microbatches", report.configuration.microbatches},
                {"recompute", recomputeName(report.configuration.training.recompute)},
                {"zero", report.configuration.zeroStage},
                {"seconds", report.pipeline.seconds},
                {"update_seconds", updateSeconds(report)},
                {"bubble", meanBubble(report)},
                {"devices", std::move(devices)},
                {"stages", std::move(stages)},
                {"transfers", toJson(report.pipeline.costs.transfers)},
                {"candidates", toJson(report.candidates)},
                // Their name in 0.1, until 0.3.
                {"alternatives", toJson(report.candidates)},
                {"notes", Array(report.notes)}};
}

void printText(llvm::raw_ostream &out, const CompileOptions &options, const TrainingForecast &report) {
  const Configuration &configuration = report.configuration;
  out << formatv("{0}: training, pp={1} dp={2} tp={3}, {4}, {5}, recompute {6}, {7}{8} ms a step, {9} of it "
                 "the update\n",
                 plan::printable(options.model), configuration.pipelineParallelSize,
                 configuration.dataParallelSize, configuration.tensorParallelSize,
                 report.pipeline.schedule.name, count(configuration.microbatches, "micro-batch"),
                 recomputeName(configuration.training.recompute),
                 configuration.zeroStage ? formatv("zero {0}, ", configuration.zeroStage).str() : "",
                 milliseconds(report.pipeline.seconds), milliseconds(updateSeconds(report)));
  for (const std::string &note : report.notes)
    out << "note: " << plan::printable(note) << "\n";
  out << "\n";
  TextTable table(
      {Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right});
  table.add({"devices", "stages", "busy ms", "idle ms", "bubble %", "state MB", "peak MB"});
  for (uint32_t rank = 0; rank < configuration.pipelineParallelSize; ++rank) {
    std::vector<std::string> stages;
    for (uint32_t stage : stagesOf(report, rank))
      stages.push_back(std::to_string(stage));
    table.add({namesOf(report, rank), llvm::join(stages, ", "),
               milliseconds(report.pipeline.simulation.ranks[rank].busySeconds),
               milliseconds(report.pipeline.simulation.bubbleSeconds(rank)),
               formatv("{0:f1}", bubbleOf(report, rank) * 100), megabytes(report.pipeline.stateBytes[rank]),
               megabytes(report.pipeline.peakBytes[rank])});
  }
  table.print(out);
  printCandidates(out, report.candidates);
}

} // namespace cleave
