// Splits a model over two devices: compile MODEL.pt INPUTS.safetensors PLAN
#include "cleave/tools/driver/Compile.h"
#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 4)
    return std::fputs("usage: compile MODEL INPUTS PLAN\n", stderr), 2;
  cleave::CompileOptions options;
  options.model = argv[1];
  options.inputsFiles = {argv[2]};
  options.output = argv[3];
  options.devices = 2;
  llvm::ExitOnError check("error: ");
  cleave::CompileReport report = check(cleave::compile(options));
  std::printf("%u stages, the slowest %.2f times the mean\n", report.stages, report.balance);
}
