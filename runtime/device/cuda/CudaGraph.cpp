//===- CudaGraph.cpp - Capture of CUDA graphs -----------------------------===//
//
// libtorch has a class for that, at::cuda::CUDAGraph, which has the GPU's generator of random numbers, one
// for all threads, take part in each capture, without a lock, and leaves it and the allocators as they are
// where a capture fails.
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

/// Memory of the GPU, and pinned memory, for what a stream's thread allocates until `close`. Nothing else has
/// it as long as the object lives, but for libraries' workspaces of a thread, which keep theirs.
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
  /// Where it last was.
  std::optional<CUDAStream> replayed;
  GraphMemory memory;
  cudaGraphExec_t executable = nullptr;
};

} // namespace

CudaGraph::~CudaGraph() {
  if (!executable)
    return;
  // It may be at work still.
  if (replayed)
    C10_CUDA_CHECK_WARN(cudaStreamSynchronize(*replayed));
  C10_CUDA_CHECK_WARN(cudaGraphExecDestroy(executable));
}

void CudaGraph::capture(const std::function<void()> &work) {
  // Other threads go on to allocate and to wait meanwhile.
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  // Ends the capture in any case.
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  memory.close();
  cudaError_t made = cudaSuccess;
  if (!failure && ended == cudaSuccess)
    made = cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  if (graph)
    C10_CUDA_CHECK_WARN(cudaGraphDestroy(graph));
  if (failure) {
    // The next call that looks at it is not the one that failed.
    (void)cudaGetLastError();
    std::rethrow_exception(failure);
  }
  C10_CUDA_CHECK(ended);
  C10_CUDA_CHECK(made);
}

/// A stream in which nothing but captures is called. Who frees pinned memory that a rank's stream has used
/// notes an event there, from any thread, which in a capture nobody could wait for.
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
  // One at a time: it is rare, and what libraries do in captures of several threads is theirs to know.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const c10::cuda::CUDAStreamGuard there(captureStream(c10::DeviceIndex(index)));
  auto graph = std::make_unique<CudaGraph>(there.current_stream());
  graph->capture(work);
  return graph;
}

} // namespace cleave::runtime
