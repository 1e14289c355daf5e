//===- GraphedStage.h - A stage as a CUDA graph -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_GRAPHEDSTAGE_H
#define CLEAVE_RUNTIME_EXECUTOR_GRAPHEDSTAGE_H

#include "codegen/plan/Plan.h"
#include "runtime/device/DevicePlugin.h"
#include "runtime/executor/Executor.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/ivalue.h>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Runs a program on a GPU, as a CUDA graph from its third run with the same sizes on. A replay copies the
/// inputs into the graph's own inputs. Results are bitwise equal to those of eager runs. A program that
/// cannot be captured always runs eagerly.
class GraphedStage {
public:
  /// `executor` and `plugin` must outlive the result. \param device  the GPU of the executor.
  GraphedStage(const plan::Plan &plan, const plan::Program &program, Executor &executor, DevicePlugin &plugin,
               c10::Device device);

  /// As Executor::run, on `inputs`, whose values it may move out.
  void run(llvm::MutableArrayRef<c10::IValue> inputs, const ExecutionContext &context,
           std::vector<c10::IValue> &outputs);

  /// Why the program cannot be captured, `it has collectives (spmd::all_reduce)`; empty if it is captured, or
  /// capture was not tried yet.
  std::string obstacle() const;

private:
  /// Runs with the same sizes, and their graph once captured, with the tensors that it reads and writes.
  struct CaptureEntry {
    /// Sizes of symbols; dtypes, sizes and strides of the inputs.
    std::vector<int64_t> key;
    uint32_t runs = 0;
    std::vector<c10::IValue> inputs, outputs;
    std::unique_ptr<DeviceGraph> graph;
  };

  void runEagerly(llvm::MutableArrayRef<c10::IValue> inputs, const ExecutionContext &context,
                  std::vector<c10::IValue> &outputs);
  /// The run for these inputs and sizes; null where none is to be captured.
  CaptureEntry *find(llvm::ArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols);
  /// Captures a run. If that fails, sets the obstacle and returns false.
  bool capture(CaptureEntry &entry, llvm::ArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols);
  static void replay(CaptureEntry &entry, llvm::ArrayRef<c10::IValue> inputs,
                     std::vector<c10::IValue> &outputs);
  void giveUp(std::string reason);

  Executor &executor;
  DevicePlugin &plugin;
  const c10::Device device;
  std::list<CaptureEntry> all;
  mutable std::mutex mutex;
  std::string reason;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_GRAPHEDSTAGE_H
