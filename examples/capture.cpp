// Writes what modules return: capture PLAN INPUTS.safetensors ACTIVATIONS.safetensors 'transformer.h.*.attn'
// …
#include "cleave/runtime/Session.h"
#include "cleave/runtime/SignatureInputs.h"
#include "cleave/runtime/TensorFile.h"
#include <cstdio>

using namespace cleave::runtime;

int main(int argc, char **argv) {
  if (argc < 5)
    return std::fputs("usage: capture PLAN INPUTS ACTIVATIONS MODULE...\n", stderr), 2;
  llvm::ExitOnError check("error: ");
  std::unique_ptr<Session> session = check(Session::open(argv[1]));
  const cleave::plan::Signature &forward = *session->plan().signatures[0];
  std::vector<at::Tensor> inputs = check(matchInputs(forward, check(readTensors(argv[2])), argv[2]));
  CaptureOptions options;
  options.points.assign(argv + 4, argv + argc);
  CapturedRequest captured = check(session->capture(inputs, options));
  for (const NamedTensor &value : captured.values)
    std::printf("%s: mean %.6f\n", value.name.c_str(), value.tensor.mean().item<double>());
  check(writeTensors(argv[3], captured.values));
}
