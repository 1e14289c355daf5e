//===- run_sequences.cpp - Sequences of requests under way together -------===//
//
// runSequences PLAN INPUTS.safetensors OUTPUTS.safetensors [alone] runs requests of several sequences: of
// each input, [c, s] is what request c of sequence s takes. The first requests of all sequences are under way
// together, then the second ones, and so on; with `alone`, one after the other, sequence by sequence. The
// outputs have the same two dimensions. It prints the bytes that devices have written to states, and the
// failures of requests. Of several processes, the first one leads.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

using namespace cleave;
using namespace cleave::runtime;

namespace {
class Sequences {
public:
  Sequences(Session &session, std::vector<NamedTensor> inputs)
      : session(session), signature(*session.plan().signatures[0]), inputs(std::move(inputs)),
        calls(this->inputs.front().tensor.size(0)), sequences(this->inputs.front().tensor.size(1)) {}

  void runTogether();
  void runAlone();
  llvm::Error write(const std::string &path) const;
  void print() const;

private:
  using Pending = std::unique_ptr<Session::Pending>;
  Pending start(int64_t call, int64_t sequence);
  void finish(int64_t call, int64_t sequence, Pending pending);

  Session &session;
  const plan::Signature &signature;
  const std::vector<NamedTensor> inputs;
  const int64_t calls, sequences;
  /// By output: [c, s]; made when the first one is there.
  std::vector<at::Tensor> outputs;
  llvm::json::Array failures;
};
} // namespace

Sequences::Pending Sequences::start(int64_t call, int64_t sequence) {
  std::vector<NamedTensor> own;
  for (const NamedTensor &input : inputs)
    own.push_back({input.name, input.tensor[call][sequence].contiguous()});
  auto leaves = llvm::cantFail(matchInputs(signature, own, "inputs"));
  return llvm::cantFail(session.start(leaves, {.sequence = uint64_t(100 + sequence)}));
}

void Sequences::finish(int64_t call, int64_t sequence, Pending pending) {
  auto given = pending->wait();
  if (!given) {
    failures.push_back(llvm::toString(given.takeError()));
    return;
  }
  for (size_t i = outputs.size(); i < given->size(); ++i) {
    std::vector<int64_t> sizes{calls, sequences};
    llvm::append_range(sizes, (*given)[i].sizes());
    outputs.push_back(at::zeros(sizes, (*given)[i].options()));
  }
  for (auto [all, one] : llvm::zip(outputs, *given))
    all[call][sequence].copy_(one);
}

void Sequences::runTogether() {
  for (int64_t call = 0; call < calls; ++call) {
    std::vector<Pending> pending;
    for (int64_t sequence = 0; sequence < sequences; ++sequence)
      pending.push_back(start(call, sequence));
    for (int64_t sequence = 0; sequence < sequences; ++sequence)
      finish(call, sequence, std::move(pending[sequence]));
  }
}

void Sequences::runAlone() {
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    for (int64_t call = 0; call < calls; ++call)
      finish(call, sequence, start(call, sequence));
    llvm::cantFail(session.endSequence(100 + sequence));
  }
}

llvm::Error Sequences::write(const std::string &path) const {
  std::vector<NamedTensor> named;
  for (auto [output, tensor] : llvm::zip(signature.outputs, outputs))
    named.push_back({output->name, tensor});
  return writeTensors(path, named);
}

void Sequences::print() const {
  int64_t written = 0, copied = 0;
  for (const DeviceStatistics &device : session.statistics()) {
    written += device.stateBytesWritten;
    copied += device.stateBytesCopied;
  }
  llvm::outs() << llvm::json::Value(llvm::json::Object{
                      {"written", written}, {"copied", copied}, {"failures", llvm::json::Array(failures)}})
               << "\n";
}

int main(int argc, char **argv) {
  llvm::ExitOnError check("error: ");
  if (argc < 4 || argc > 5)
    return llvm::errs() << "usage: runSequences PLAN INPUTS OUTPUTS [alone]\n", 2;
  c10::InferenceMode inference;
  SessionOptions options;
  options.maxInFlight = 8;
  options.launch = check(launchFromEnvironment());
  options.hasCoordinator = options.launch.has_value();
  std::unique_ptr<Session> session = check(Session::open(argv[1], options));
  if (session->process() != 0) {
    check(session->serve());
    return 0;
  }
  Sequences sequences(*session, check(readTensors(argv[2])));
  argc == 5 ? sequences.runAlone() : sequences.runTogether();
  check(sequences.write(argv[3]));
  sequences.print();
  check(session->close());
}
