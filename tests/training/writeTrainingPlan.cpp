// Writes a plan that trains: writeTrainingPlan FOLDER [layers=N] [pp=N] [dp=N] [tp=N] [microbatches=N]
// [order=NAME] [tied=1]. Beside it, FOLDER.inputs.safetensors has example inputs.
#include "runtime/base/TensorFile.h"
#include "tests/training/TrainingNetwork.h"
#include <cstdio>

using namespace cleave;

static int fail(llvm::Error error) {
  std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}

int main(int count, char **arguments) {
  TrainingNetwork network;
  std::map<std::string, uint32_t *> numbers{{"layers", &network.layers},
                                            {"pp", &network.pipelineRanks},
                                            {"dp", &network.dataParallelSize},
                                            {"tp", &network.tensorParallelSize},
                                            {"microbatches", &network.microbatches}};
  if (count < 2)
    return fail(llvm::createStringError("expected the folder of the plan"));
  for (int i = 2; i < count; ++i) {
    auto [name, value] = llvm::StringRef(arguments[i]).split('=');
    auto number = numbers.find(name.str());
    if (name == "order")
      network.order = value.str();
    else if (name == "tied")
      network.isTied = value == "1";
    else if (number == numbers.end() || value.getAsInteger(10, *number->second))
      return fail(llvm::createStringError("found " + llvm::Twine(arguments[i]) + ", expected NAME=NUMBER"));
  }
  const std::string folder = arguments[1];
  if (llvm::Error error = network.write(folder))
    return fail(std::move(error));
  const std::vector<at::Tensor> inputs = TrainingNetwork::inputs(16);
  if (llvm::Error error =
          runtime::writeTensors(folder + ".inputs.safetensors", {{"x", inputs[0]}, {"t", inputs[1]}}))
    return fail(std::move(error));
  return 0;
}
