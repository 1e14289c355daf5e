//===- RandomPipeline.h - Pipelines for the simulator -----------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMPIPELINE_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMPIPELINE_H

#include "partitioner/simulation/Schedules.h"
#include "partitioner/simulation/Simulator.h"
#include "tests/unit/partitioner/RandomGraph.h"
#include <string>
#include <vector>

namespace cleave {

/// p ranks of v stages each, m micro-batches.
struct Shape {
  uint32_t p, v, m;
};
/// Seconds of a stage: forward, input gradient, weight gradient.
struct Times {
  double f, x, w;
  double b() const { return x + w; }
};

inline std::string textOf(const Shape &shape) {
  return std::to_string(shape.p) + " ranks of " + std::to_string(shape.v) + " stages, " +
         std::to_string(shape.m) + " micro-batches";
}

/// A number between 0.01 and 9.
inline double draw(Dice &dice) { return (0.1 + dice.below(1u << 20) * 0x1p-20) * (1u << dice.below(7)) / 8; }

inline Times drawTimes(Dice &dice) {
  const double f = draw(dice), x = draw(dice);
  return {f, x, draw(dice)};
}

inline Pipeline pipelineOf(const Shape &shape) {
  Pipeline pipeline{0, shape.p * shape.v, shape.p, shape.m, {}};
  for (uint32_t stage = 1; stage < pipeline.stages; ++stage)
    pipeline.transfers.push_back({stage - 1, stage, {0}, {0}});
  return pipeline;
}

/// One entry a stage. Every micro-batch keeps one byte, values have none.
inline PipelineCosts costsOf(const std::vector<Times> &stages) {
  PipelineCosts costs;
  costs.overlapsTransfers = true;
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    costs.stages.push_back({stages[stage].f, stages[stage].x, stages[stage].w, 1});
    if (stage > 0)
      costs.transfers.push_back({stage - 1, stage, 0});
  }
  return costs;
}

inline plan::Schedule scheduleOf(TrainingSchedule kind, const Shape &shape) {
  return llvm::cantFail(makeTrainingSchedule(kind, pipelineOf(shape)));
}

/// Every stage has times of its own.
inline std::vector<Times> drawStages(Dice &dice, uint32_t stages) {
  std::vector<Times> times;
  for (uint32_t stage = 0; stage < stages; ++stage)
    times.push_back(drawTimes(dice));
  return times;
}

/// Two stages of 1 and 2 seconds, 6 bytes between them, which take 1 s plus 0.5 s of latency.
inline PipelineCosts twoStages(bool overlaps) {
  PipelineCosts costs = costsOf({{1, 0, 0}, {2, 0, 0}});
  costs.overlapsTransfers = overlaps;
  costs.transfers[0].bytes = 6;
  costs.link = {0.5, 6};
  return costs;
}

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMPIPELINE_H
