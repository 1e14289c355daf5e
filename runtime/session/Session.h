//===- Session.h - Loading and running a plan -------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_SESSION_H
#define CLEAVE_RUNTIME_SESSION_SESSION_H

#include "codegen/plan/Checksum.h"
#include "codegen/plan/Plan.h"
#include "runtime/base/Launch.h"
#include "runtime/base/Trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

struct SessionOptions {
  /// One entry per rank (`cpu:0`, `cuda:1`), a GPU as often as wanted; empty: `cpu:0` to `cpu:n-1`; `cuda`
  /// alone: a GPU each, by a process' place on its machine.
  std::vector<std::string> devices;
  /// Where every output is given, whichever ranks made it: `cpu:0`, main memory like all of `cpu:N`, or a GPU
  /// (`cuda:1`), on whose default stream it is then ready.
  std::string outputDevice = "cpu:0";
  /// Libraries that bring operators of their own, loaded before the plan's operators are resolved.
  std::vector<std::string> libraries;
  /// Operators that the plan may call though they are not listed (docs/operators.md), with or without
  /// overload.
  std::vector<std::string> allowedOperators;
  /// Compare every tensor with the type the plan predicts, and fail where they differ (a check of inference;
  /// slow).
  bool checkTypes = false;
  /// How many requests may be under way at one time; `start` waits for the others. 0: twice the number of
  /// ranks and two. Always one where the model keeps state from call to call.
  uint32_t requests = 0;
  /// Compute in this type, bfloat16 or float16, where libtorch's autocast holds it safe; outputs then have
  /// the types that this gives, and `checkTypes` has nothing to compare with. Alike in all processes.
  std::optional<c10::ScalarType> autocast = std::nullopt;
  /// Let GPUs round the operands of float32 products and convolutions to TF32. Of the whole process, by the
  /// session that was opened last.
  bool tf32 = false;
  /// Run stages on GPUs as CUDA graphs, from the third request of the same sizes on. Stages that cannot be
  /// captured run as ever (`DeviceStatistics::eager`).
  bool cudaGraphs = false;
  /// Keep what every rank does and when, for `takeTrace`; it grows until that is called.
  bool trace = false;
  /// How long `run` may take before it fails, and the session with it; a plan that waits longer is stuck.
  std::chrono::seconds timeout{30};
  /// How long loading the plan may take, and other processes are waited for that load it and show that they
  /// live.
  std::chrono::seconds loadTimeout{3600};
  /// That this process runs one rank of the plan, and other processes the others (`launchFromEnvironment`).
  /// `devices` then still has one entry per rank, and `timeout` is also how long ranks wait for each other to
  /// start.
  std::optional<Launch> launch = std::nullopt;
  /// Of several processes, process 0 leads: it alone calls `run`, `start` and `resetState`, from any of its
  /// threads, and gets the outputs; the others call `serve`. Alike in all of them.
  bool led = false;
  /// Called by `open` once the processes have met, before it makes the threads that run the plan; it fails
  /// where this does.
  std::function<llvm::Error()> met = nullptr;
  /// Called once, by a thread of its own, when a run of several processes has failed in any of them: with the
  /// message that all of them end with. It may block, and destroy the session where no other call of it is
  /// under way; destroying it elsewhere waits until the callback has returned. It may not throw, which would
  /// end the process.
  std::function<void(const std::string &)> failed = nullptr;
  /// Of a run of one process: called with the message, by any thread, when a request has no result in time,
  /// after which the session takes no others, or when the plan is not loaded in time (`loadTimeout`). A
  /// kernel cannot be stopped, and who closes the session waits for it: a program that does not want to ends
  /// here. It may be called while `open` runs. It may neither throw nor destroy the session.
  std::function<void(const std::string &)> overdue = nullptr;
};

/// What a device has held and done since the session was opened.
struct DeviceStatistics {
  std::string name;
  uint32_t rank;
  /// Of which weights: the tensors this rank's programs use.
  int64_t weightBytes;
  /// Most bytes held at one time, weights included; of a GPU, by all in this process that use it.
  int64_t peakBytes;
  /// Of a GPU only what giving it work takes, unless `SessionOptions::trace` has ranks wait for it.
  double busySeconds;
  /// With `SessionOptions::cudaGraphs`: which stages are none, and why: `stage 1: it draws random numbers`.
  std::vector<std::string> eager;
};

/// A plan, its weights and one worker thread a device. `run` may be called from several threads at a time.
///
/// A session with a `launch` is one of several, each in a process of its own with one rank. Either one of
/// them leads, or all make the same calls of `run`, `start` and `resetState` in the same order, which then is
/// that of one thread, on inputs of the same sizes. Closing it waits for the others to close theirs. When a
/// request fails in one of them, or a process dies, all of them fail for good, with the same message. A
/// process has one such session at a time; those that follow each other, all processes open in one order.
class Session {
public:
  /// Opens `planDirectory` as untrusted input: plan and shards are checked before anything is executed.
  static llvm::Expected<std::unique_ptr<Session>> open(llvm::StringRef planDirectory,
                                                       SessionOptions options = {});
  /// Closes it, and says nothing of what fails. Waits for the kernels that run, also of requests that have
  /// failed.
  ~Session();
  /// Waits until all processes are done, and fails where one is not; nothing may be called afterwards. Alone,
  /// it does nothing.
  llvm::Error close();

  const plan::Plan &plan() const;

  /// A request under way. Destroying it waits for the end.
  class Pending;
  /// Runs signature `signature` on the leaves of its inputs, in the order of `Signature.inputs`. Inputs are
  /// read, never written, and must not be changed until the result is there, of several processes until all
  /// of them have done their part (`meet`). Outputs are the leaves of `Signature.outputs`. Fails on inputs
  /// that do not fit the signature (number, dtype, rank, a size that is not the traced one or that
  /// contradicts another use of the same name), and with rank, stage and module path when an operator throws.
  /// Of several processes, those for which `needsInputs` is false may give tensors of the device `meta`, and
  /// all but `outputProcess` get undefined tensors.
  llvm::Expected<std::vector<at::Tensor>> run(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature = 0);
  /// The same without waiting for the result: requests follow one another through the stages. Waits for room
  /// while `SessionOptions::requests` are under way.
  llvm::Expected<std::unique_ptr<Pending>> start(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature = 0);

  /// Makes everything that the model keeps from request to request what it was when the model was saved, once
  /// the request under way has ended. A request that fails changes nothing of that.
  llvm::Error resetState();

  /// In processes that are led: does what process 0 starts, until that closes its session.
  llvm::Error serve();

  std::vector<DeviceStatistics> statistics() const;
  /// What was done since the last call, by rank and then in order; empty unless `SessionOptions::trace`.
  std::vector<TraceEvent> takeTrace();

  /// Which of how many processes this is; 0 of 1 without a launch.
  uint32_t process() const;
  uint32_t processes() const;
  /// The process that gets the outputs.
  uint32_t outputProcess(uint32_t signature = 0) const;
  /// Whether this process reads what is in the inputs, not only their sizes.
  bool needsInputs(uint32_t signature = 0) const;
  /// The following are calls that all processes make. They return when all of them have come there,
  llvm::Error meet();
  /// what each of them gives, at most `most` bytes, by process, at process `to`, elsewhere nothing,
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text, uint32_t to, size_t most = 16 << 20);
  /// what process `from` gives, everywhere.
  llvm::Expected<std::string> share(llvm::StringRef text, uint32_t from);
  /// Has all processes fail with `message`, and gives the one that they fail with: an earlier one, if there
  /// was one.
  std::string fail(const std::string &message);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

class Session::Pending {
public:
  ~Pending();
  llvm::Expected<std::vector<at::Tensor>> wait();

private:
  friend class Session;
  struct Impl;
  explicit Pending(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_SESSION_H
