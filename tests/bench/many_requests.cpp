//===- many_requests.cpp - What many requests leave behind ----------------===//
//
// manyRequests PLAN INPUTS.safetensors COUNT [THREADS] runs that many requests, each on other inputs, as the
// process that the environment says this is. With THREADS, process 0 leads the others, and starts them from
// as many threads. It prints the resident memory after the first thousand and at the end, and in the process
// that gets the outputs a digest of them all, which does not depend on their order.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/files/Checksum.h"
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <ATen/ATen.h>
#include <atomic>
#include <c10/core/InferenceMode.h>
#include <cstring>
#include <deque>
#include <fstream>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;

static int64_t residentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

namespace {
class Requests {
public:
  Requests(Session &session, std::vector<at::Tensor> inputs) : session(session), inputs(std::move(inputs)) {}

  /// Runs every `step`-th request from `first` on.
  llvm::Error run(uint64_t first, uint64_t step, uint64_t count);
  void print();

private:
  std::vector<at::Tensor> inputsOf(uint64_t request) const;
  void finish(uint64_t request, llvm::ArrayRef<at::Tensor> outputs);

  Session &session;
  const std::vector<at::Tensor> inputs;
  std::atomic<uint64_t> done{0}, digest{0};
  std::atomic<int64_t> afterThousand{0};
};
} // namespace

std::vector<at::Tensor> Requests::inputsOf(uint64_t request) const {
  std::vector<at::Tensor> turned;
  for (const at::Tensor &input : inputs)
    turned.push_back(input.roll(int64_t(request)));
  return turned;
}

void Requests::finish(uint64_t request, llvm::ArrayRef<at::Tensor> outputs) {
  std::string bytes(reinterpret_cast<const char *>(&request), sizeof request);
  for (const at::Tensor &output : outputs)
    if (output.defined()) {
      const at::Tensor whole = output.contiguous();
      bytes.append(static_cast<const char *>(whole.const_data_ptr()), whole.nbytes());
    }
  const plan::Digest own =
      plan::checksum(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
  uint64_t number = 0;
  std::memcpy(&number, own.data(), sizeof number);
  digest += number;
  if (++done == 1000)
    afterThousand = residentBytes();
}

llvm::Error Requests::run(uint64_t first, uint64_t step, uint64_t count) {
  c10::InferenceMode inference;
  const size_t most = session.plan().stages.size() + 1;
  std::deque<std::pair<uint64_t, std::unique_ptr<Session::Pending>>> underWay;
  for (uint64_t next = first; next < count || !underWay.empty();) {
    if (next < count && underWay.size() < most) {
      auto pending = session.start(inputsOf(next));
      if (!pending)
        return pending.takeError();
      underWay.emplace_back(next, std::move(*pending));
      next += step;
      continue;
    }
    auto outputs = underWay.front().second->wait();
    if (!outputs)
      return outputs.takeError();
    finish(underWay.front().first, *outputs);
    underWay.pop_front();
  }
  return llvm::Error::success();
}

void Requests::print() {
  const bool hasOutputs = session.process() == session.outputProcess();
  llvm::outs() << llvm::formatv("{{\"after_thousand\": {0}, \"at_end\": {1}, \"digest\": {2}}\n",
                                afterThousand.load(), residentBytes(), hasOutputs ? digest.load() : 0);
}

int main(int argc, char **argv) {
  llvm::ExitOnError check("error: ");
  uint64_t count = 0, threads = 0;
  if (argc < 4 || argc > 5 || llvm::StringRef(argv[3]).getAsInteger(10, count) ||
      (argc == 5 && llvm::StringRef(argv[4]).getAsInteger(10, threads)))
    return llvm::errs() << "usage: manyRequests PLAN INPUTS COUNT [THREADS]\n", 2;
  // When the kernel gives whole huge pages does not depend on what requests leave behind.
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
    return llvm::errs() << "error: huge pages cannot be switched off\n", 1;
  SessionOptions options;
  options.launch = check(launchFromEnvironment());
  options.hasCoordinator = threads > 0;
  std::unique_ptr<Session> session = check(Session::open(argv[1], options));
  const plan::Signature &forward = *session->plan().signatures[0];
  Requests requests(*session, check(matchInputs(forward, check(readTensors(argv[2])), argv[2])));
  if (options.hasCoordinator && session->process() != 0) {
    check(session->serve());
  } else {
    const uint64_t step = std::max<uint64_t>(threads, 1);
    std::vector<std::thread> callers;
    for (uint64_t first = 0; first < step; ++first)
      callers.emplace_back([&, first] { check(requests.run(first, step, count)); });
    for (std::thread &caller : callers)
      caller.join();
  }
  requests.print();
}
