//===- Session.h - Loads and runs a plan ------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_SESSION_H
#define CLEAVE_RUNTIME_SESSION_SESSION_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/files/Checksum.h"
#include "runtime/base/Launch.h"
#include "runtime/base/TensorFile.h"
#include "runtime/base/Trace.h"
#include "runtime/capture/CaptureOptions.h"
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
  /// One entry per rank (`cpu:0`, `cuda:1`); ranks may share a GPU. Empty: `cpu:0` to `cpu:n-1`. `cuda`
  /// alone: one GPU for each rank; in a process of several, the GPU of its local rank.
  std::vector<std::string> devices;
  /// Device of the outputs, whichever ranks make them: `cpu:0` (CPU memory, as any `cpu:N`) or a GPU
  /// (`cuda:1`). On a GPU they are ready on its default stream.
  std::string outputDevice = "cpu:0";
  /// Libraries that register operators, loaded before the plan's operators are resolved.
  std::vector<std::string> libraries;
  /// Operators that the plan may call although they are not listed (docs/operators.md), with or without
  /// overload.
  std::vector<std::string> allowedOperators;
  /// Compare every tensor with the type that the plan predicts, and fail where they differ. Slow; checks
  /// shape inference.
  bool checkTypes = false;
  /// Run requests of sizes at which the model's trace was not compared with the module that it was made from
  /// (Symbol.witnessed_max), too. The trace may answer otherwise there. Must be the same in all processes.
  bool beyondWitnesses = false;
  /// Maximum of requests under way; `start` waits while it is reached. 0: twice the number of ranks, plus
  /// two. Always one if the model keeps a state that has no rows for the batch.
  uint32_t maxInFlight = 0;
  /// Run operators under libtorch's autocast with this dtype, bfloat16 or float16. Outputs then have
  /// autocast's dtypes, and `checkTypes` has nothing to compare with. Must be the same in all processes.
  std::optional<c10::ScalarType> autocast = std::nullopt;
  /// Allow TF32 for float32 matrix products and convolutions on GPUs. Affects the whole process; the session
  /// opened last wins.
  bool tf32 = false;
  /// Run stages on GPUs as CUDA graphs, from the third request with the same sizes on. Stages that cannot be
  /// captured run eagerly (`DeviceStatistics::eager`).
  bool cudaGraphs = false;
  /// Record the actions of every rank for `takeTrace`. Memory grows until that is called.
  bool trace = false;
  /// Timeout of `run`, after which it fails, and the session with it. A plan that takes longer is taken to be
  /// stuck.
  std::chrono::seconds timeout{30};
  /// Timeout of loading the plan, and of waiting for other processes that load it and show that they live.
  std::chrono::seconds loadTimeout{3600};
  /// Makes this process run one rank of the plan, and other processes the other ranks
  /// (`launchFromEnvironment`). `devices` still has one entry per rank. `timeout` then also limits how long
  /// ranks wait for each other to start.
  std::optional<Launch> launch = std::nullopt;
  /// Several processes: rank 0 is the coordinator. It alone calls `run`, `start`, `resetState` and
  /// `endSequence`, from any thread, and gets the outputs; the others call `serve`. Must be the same in all
  /// processes.
  bool hasCoordinator = false;
  /// Called by `open` after the processes have met, before it starts the threads that run the plan. Its error
  /// fails `open`.
  std::function<llvm::Error()> onRendezvous = nullptr;
  /// Called once, on a thread of its own, when a run of several processes has failed in any of them; the
  /// argument is the message with which all of them end. It may block, and may destroy the session if no
  /// other call of the session is running; the destructor on another thread waits for the callback. It must
  /// not throw, which would terminate the process.
  std::function<void(const std::string &)> onFailure = nullptr;
  /// Single process: called with the message, by any thread, when a request times out, after which the
  /// session accepts no others, or when loading the plan times out (`loadTimeout`). A kernel cannot be
  /// stopped, and closing the session waits for it; a program that does not want to wait exits here. It may
  /// be called while `open` runs. It must neither throw nor destroy the session.
  std::function<void(const std::string &)> onTimeout = nullptr;
};

/// What a request asks for.
struct RequestOptions {
  /// Index of the signature.
  uint32_t signature = 0;
  /// Identifies a batch of sequences, where the plan has states with rows for the batch: row n of a request
  /// continues what row n of the last request with this id has left. All requests of an id have the same
  /// batch, and follow one another; those of different ids run at the same time.
  uint64_t sequence = 0;
  /// Fail at the first operator that makes a NaN, with its rank, stage and module path; or else before the
  /// update of a training step, so that it changes nothing. Slow. Stages that are CUDA graphs are not
  /// checked, nor are those of other processes.
  bool refusesNan = false;
  /// Prefix of the message of a rank that fails, such as `step 3: `. A coordinator does not send it to other
  /// processes.
  std::string errorPrefix = {};
};

/// What training has changed in a session.
struct TrainedTensors {
  /// By their names in the plan: weights that updates change, and states that last from request to request
  /// (what an optimizer keeps, buffers that the model writes), those of them that have a value yet.
  std::vector<NamedTensor> weights, states;
};

/// Memory and time of a device since the session was opened.
struct DeviceStatistics {
  std::string name;
  uint32_t rank;
  /// Bytes of the weights that this rank's programs use.
  int64_t weightBytes;
  /// Most bytes held at one time, weights included; of a GPU, by all users in this process.
  int64_t peakBytes;
  /// Bytes that all requests, failed ones too, wrote to the states of this rank; and how many of them were
  /// copied, because the value was still used elsewhere.
  int64_t stateBytesWritten, stateBytesCopied;
  /// On a GPU only the time to launch kernels, unless `SessionOptions::trace` makes ranks synchronize.
  double busySeconds;
  /// With `SessionOptions::cudaGraphs`: stages that are not CUDA graphs, and why: `stage 1: it draws random
  /// numbers`.
  std::vector<std::string> eager;
};

/// A plan with its weights and one worker thread per device. `run` may be called from several threads at a
/// time.
///
/// A session with a `launch` is one of several, each in a process with one rank. Either rank 0 is the
/// coordinator (`SessionOptions::hasCoordinator`), or all processes make the same calls of `run`,
/// `start`, `resetState` and `endSequence` in the same order, from one thread, with inputs of the same sizes.
/// Closing a session waits for the others to close theirs. When a request fails in one of them, or a process
/// dies, all of them fail for good, with the same message. A process has one such session at a time;
/// processes that open several, one after the other, open them in the same order.
class Session {
public:
  /// Opens `planDirectory` as untrusted input: plan and shards are checked before anything is executed.
  static llvm::Expected<std::unique_ptr<Session>> open(llvm::StringRef planDirectory,
                                                       SessionOptions options = {});
  /// Closes the session, ignoring errors. Waits for running kernels, also of failed requests.
  ~Session();
  /// Waits until all processes are done, and fails if one has failed; no call may follow. Does nothing in a
  /// single process.
  llvm::Error close();

  const plan::Plan &plan() const;

  /// A request under way. Destroying it waits for its end.
  class Pending;
  /// Runs signature `signature` on the leaves of its inputs, in the order of `Signature.inputs`; returns the
  /// leaves of `Signature.outputs`. Inputs are only read. They must not change until the result is there or,
  /// with several processes, until all processes have done their part (`barrier`). Fails on inputs that do
  /// not match the signature (number, dtype, number of dimensions, a size that is fixed, contradicts
  /// another use of its symbol, or is not among those that were compared, see `beyondWitnesses`). Fails with
  /// rank, stage and module path if an operator throws. With several processes, those for which `needsInputs`
  /// is false may pass tensors on the device `meta`, and all but `outputProcess` get undefined tensors.
  llvm::Expected<std::vector<at::Tensor>> run(llvm::ArrayRef<at::Tensor> inputs, RequestOptions options = {});
  /// As run, but returns before the result is there, so that requests are pipelined through the stages. Waits
  /// while `SessionOptions::maxInFlight` requests are under way, or one of the same sequence.
  llvm::Expected<std::unique_ptr<Pending>> start(llvm::ArrayRef<at::Tensor> inputs,
                                                 RequestOptions options = {});

  /// Runs a request as `run` does, and reads, replaces or edits outputs of modules. Fails on names that no
  /// capture point has, and on values that do not fit. A plan computes each value as it does without. With a
  /// coordinator, hooks that are not whole are refused; without, all processes pass the same options, and
  /// whole-batch hooks are called in `outputProcess`.
  llvm::Expected<CapturedRequest> capture(llvm::ArrayRef<at::Tensor> inputs, const CaptureOptions &options,
                                          RequestOptions request = {});

  /// Waits for the requests under way, then resets the states of the session and of all sequences to the
  /// values that were saved with the model. A failed request leaves the states unchanged.
  llvm::Error resetState();
  /// Drops the states of a sequence, once its request under way has ended. The id may be used again.
  llvm::Error endSequence(uint64_t sequence);

  /// Copies trained weights and states, unsharded, into main memory. Waits for the requests under way. With
  /// several processes all make this call, and process 0 alone gets tensors; not with a coordinator.
  llvm::Expected<TrainedTensors> trainedTensors();
  /// Puts back what `trainedTensors` gave, all or nothing. Fails if a name, dtype or shape is not the plan's,
  /// or a weight is missing; states that are missing are reset. Several processes: all give the same tensors.
  llvm::Error restore(const TrainedTensors &tensors);

  /// Processes other than the coordinator: executes the commands of rank 0, until that closes its session.
  llvm::Error serve();

  std::vector<DeviceStatistics> statistics() const;
  /// The actions since the last call, by rank and then in order; empty unless `SessionOptions::trace`.
  std::vector<TraceEvent> takeTrace();

  /// Index of this process, which is the rank that it runs, and the number of processes; 0 and 1 without a
  /// launch.
  uint32_t process() const;
  uint32_t processes() const;
  /// The process (its rank) that gets the outputs.
  uint32_t outputProcess(uint32_t signature = 0) const;
  /// True if this process reads the data of the inputs, not only their sizes.
  bool needsInputs(uint32_t signature = 0) const;
  /// Barrier of all processes. This and the following two are collective calls.
  llvm::Error barrier();
  /// Gathers `text` of all processes, by index, at process `root`; empty elsewhere. Each text has at most
  /// `most` bytes.
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text, uint32_t root,
                                                  size_t most = 16 << 20);
  /// Broadcasts `text` of process `root`.
  llvm::Expected<std::string> broadcast(llvm::StringRef text, uint32_t root);
  /// Ends the run in all processes. Returns the message with which they end: `message`, or an earlier one.
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
