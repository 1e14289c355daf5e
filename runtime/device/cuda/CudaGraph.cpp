//===- CudaGraph.cpp - Capture of CUDA graphs -----------------------------===//
//
// at::cuda::CUDAGraph is not used: it registers the GPU's random number generator, which all threads share,
// with each capture without a lock, and it does not restore generator and allocators after a failed capture.
//
//===----------------------------------------------------------------------===//
#include "runtime/device/cuda/CudaGraph.h"
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace cleave::runtime {

using c10::cuda::CUDAStream;
namespace CUDACachingAllocator = c10::cuda::CUDACachingAllocator;

namespace {

/// Private memory pools, on the GPU and pinned, for allocations on a stream until `close`. No other code uses
/// this memory while the object lives, except workspaces that libraries keep per thread.
class GraphMemory {
public:
  explicit GraphMemory(CUDAStream stream)
      : index(stream.device_index()), pool(at::cuda::graph_pool_handle()),
        pinned(*at::getHostAllocator(at::kCUDA)) {
    CUDACachingAllocator::beginAllocateToPool(
        index, pool, [stream](cudaStream_t asking) { return asking == stream.stream(); });
    pinned.begin_allocate_to_pool(pool, [stream](c10::Stream asking) { return asking == stream.unwrap(); });
  }
  ~GraphMemory() {
    close();
    CUDACachingAllocator::releasePool(index, pool);
    pinned.release_pool(pool);
  }
  GraphMemory(const GraphMemory &) = delete;
  GraphMemory &operator=(const GraphMemory &) = delete;

  void close() {
    if (std::exchange(isClosed, true))
      return;
    CUDACachingAllocator::endAllocateToPool(index, pool);
    pinned.end_allocate_to_pool(pool);
  }

private:
  const c10::DeviceIndex index;
  const c10::MempoolId_t pool;
  at::HostAllocator &pinned;
  bool isClosed = false;
};

class CudaGraph final : public DeviceGraph {
public:
  explicit CudaGraph(CUDAStream stream) : stream(stream), memory(stream) {}
  ~CudaGraph() override;
  void capture(const std::function<void()> &work);
  void replay() override {
    replayed = c10::cuda::getCurrentCUDAStream(stream.device_index());
    C10_CUDA_CHECK(cudaGraphLaunch(executable, *replayed));
  }

private:
  const CUDAStream stream;
  /// Stream of the last replay.
  std::optional<CUDAStream> replayed;
  GraphMemory memory;
  cudaGraphExec_t executable = nullptr;
};

} // namespace

CudaGraph::~CudaGraph() {
  if (!executable)
    return;
  // The last replay may still be running.
  if (replayed)
    C10_CUDA_CHECK_WARN(cudaStreamSynchronize(*replayed));
  C10_CUDA_CHECK_WARN(cudaGraphExecDestroy(executable));
}

void CudaGraph::capture(const std::function<void()> &work) {
  // Thread-local mode: other threads may allocate and synchronize during the capture.
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  // Ends the capture, also after a failure.
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  memory.close();
  cudaError_t made = cudaSuccess;
  if (!failure && ended == cudaSuccess)
    made = cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  if (graph)
    C10_CUDA_CHECK_WARN(cudaGraphDestroy(graph));
  if (failure) {
    // Clears CUDA's last error, which a later unrelated call would report.
    (void)cudaGetLastError();
    std::rethrow_exception(failure);
  }
  C10_CUDA_CHECK(ended);
  C10_CUDA_CHECK(made);
}

/// A stream used for captures only. Freeing pinned memory records an event on each stream that used it, from
/// any thread; nothing may wait for an event recorded during a capture.
static CUDAStream captureStream(c10::DeviceIndex index) {
  static std::map<c10::DeviceIndex, CUDAStream> streams;
  auto found = streams.find(index);
  if (found == streams.end()) {
    const c10::cuda::CUDAGuard there(index);
    cudaStream_t made = nullptr;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    found = streams.emplace(index, c10::cuda::getStreamFromExternal(made, index)).first;
  }
  return found->second;
}

std::unique_ptr<DeviceGraph> captureGraph(int index, const std::function<void()> &work) {
  // One capture at a time: captures are rare, and libraries need not support concurrent ones.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const c10::cuda::CUDAStreamGuard there(captureStream(c10::DeviceIndex(index)));
  auto graph = std::make_unique<CudaGraph>(there.current_stream());
  graph->capture(work);
  return graph;
}

} // namespace cleave::runtime
