// Zero ablation: by module, the largest change of the first output when the module returns zeros.
// hooks PLAN INPUTS.safetensors MODULE…
#include "cleave/runtime/Session.h"
#include "cleave/runtime/SignatureInputs.h"
#include "cleave/runtime/TensorFile.h"
#include <ATen/ATen.h>
#include <cstdio>

using namespace cleave::runtime;

/// Called for each micro-batch by tensor-parallel rank 0 of the stage, in its thread.
static at::Tensor zero(const at::Tensor &value, const HookContext &) { return at::zeros_like(value); }

int main(int argc, char **argv) {
  if (argc < 4)
    return std::fputs("usage: hooks PLAN INPUTS MODULE...\n", stderr), 2;
  llvm::ExitOnError check("error: ");
  std::unique_ptr<Session> session = check(Session::open(argv[1]));
  const cleave::plan::Signature &forward = *session->plan().signatures[0];
  std::vector<at::Tensor> inputs = check(matchInputs(forward, check(readTensors(argv[2])), argv[2]));
  const std::vector<at::Tensor> outputs = check(session->run(inputs));
  for (int i = 3; i < argc; ++i) {
    CaptureOptions options;
    options.hooks = {{argv[i], zero}};
    CapturedRequest edited = check(session->capture(inputs, options));
    const double change = (edited.outputs[0] - outputs[0]).abs().max().item<double>();
    std::printf("%s: %.4f\n", argv[i], change);
  }
}
