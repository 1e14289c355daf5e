//===- GraphedStage.h - A stage's calls as one, on a GPU ----------*- C++ -*-===//
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

/// Runs a program on a GPU, from its third run with the same sizes on as a CUDA graph: what the program
/// calls is captured once, and then done as a whole on copies of the inputs. Bits are those of the
/// program's own run. A program that cannot be captured runs as ever.
class GraphedStage {
public:
  /// `executor` and `plugin` must outlive the result. \param place  the GPU that the executor is on.
  GraphedStage(const plan::Plan &plan, const plan::Program &program, Executor &executor, DevicePlugin &plugin,
             c10::Device place);

  /// Like the executor's, on `inputs`, of which it takes what it needs.
  void run(llvm::MutableArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols,
           const std::atomic<bool> &cancelled, std::vector<c10::IValue> &outputs);

  /// Why the program is not captured, `it has collectives (spmd::all_reduce)`; empty where nothing is known
  /// to be in the way.
  std::string obstacle() const;

private:
  /// A captured run: where it reads its inputs and leaves its outputs.
  struct Captured {
    /// The sizes of symbols, and what the inputs are like.
    std::vector<int64_t> key;
    uint32_t runs = 0;
    std::vector<c10::IValue> inputs, outputs;
    std::unique_ptr<DeviceGraph> graph;
  };

  void runEagerly(llvm::MutableArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols,
                  const std::atomic<bool> &cancelled, std::vector<c10::IValue> &outputs);
  /// That of these inputs and sizes; null where it is not to be captured.
  Captured *find(llvm::ArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols);
  /// False, and an obstacle, where that fails.
  bool capture(Captured &captured, llvm::ArrayRef<c10::IValue> inputs, llvm::ArrayRef<int64_t> symbols);
  static void replay(Captured &captured, llvm::ArrayRef<c10::IValue> inputs,
                     std::vector<c10::IValue> &outputs);
  void giveUp(std::string reason);

  Executor &executor;
  DevicePlugin &plugin;
  const c10::Device place;
  std::list<Captured> all;
  mutable std::mutex mutex;
  std::string reason;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_GRAPHEDSTAGE_H
