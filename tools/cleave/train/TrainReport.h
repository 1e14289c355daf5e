//===- TrainReport.h - Report of `cleave train` -----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TRAIN_TRAINREPORT_H
#define CLEAVE_TOOLS_CLEAVE_TRAIN_TRAINREPORT_H

#include "tools/cleave/run/RunMeasurement.h"
#include "tools/cleave/train/TrainingData.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// Measurements of a training run.
struct TrainReport {
  std::vector<runtime::StepResult> steps;
  /// Seconds of each step.
  std::vector<double> stepSeconds;
  /// Wall time of all steps, with log lines and the checkpoints of --checkpoint-every.
  double seconds = 0;
  /// Steps of the whole training so far, those before a checkpoint included.
  uint64_t completedSteps = 0;
  /// Of all processes, by rank.
  std::vector<MeasuredDevice> devices;

  /// Gathers the devices of all processes at process 0. A collective call.
  llvm::Error gatherDevices(runtime::Session &session);
  llvm::json::Object toJson(const TrainingData &data) const;
  void printText(llvm::raw_ostream &out, const TrainingData &data) const;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TRAIN_TRAINREPORT_H
