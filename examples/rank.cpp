// The same as one process per rank: torchrun --nproc-per-node 2 --no-python rank PLAN INPUTS.safetensors
// OUTPUTS.safetensors
#include "cleave/runtime/Session.h"
#include "cleave/runtime/SignatureInputs.h"
#include "cleave/runtime/TensorFile.h"
#include <cstdio>

using namespace cleave::runtime;

int main(int argc, char **argv) {
  if (argc != 4)
    return std::fputs("usage: rank PLAN INPUTS OUTPUTS\n", stderr), 2;
  llvm::ExitOnError check("error: ");
  SessionOptions options;
  options.launch = check(launchFromEnvironment());
  options.hasCoordinator = true;
  std::unique_ptr<Session> session = check(Session::open(argv[1], options));
  if (session->process() != 0) {
    check(session->serve());
    return check(session->close()), 0;
  }
  // Process 0 alone knows of requests; it may start them from several threads.
  const cleave::plan::Signature &forward = *session->plan().signatures[0];
  std::vector<at::Tensor> inputs = check(matchInputs(forward, check(readTensors(argv[2])), argv[2]));
  std::vector<at::Tensor> outputs = check(session->run(inputs));
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < outputs.size(); ++i)
    named.push_back({forward.outputs[i]->name, outputs[i]});
  check(writeTensors(argv[3], named));
  check(session->close());
}
