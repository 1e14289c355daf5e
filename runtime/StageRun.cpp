//===- StageRun.cpp -------------------------------------------------------===//
#include "runtime/StageRun.h"
#include "runtime/Values.h"

namespace cleave::runtime {

StageRun::StageRun(const plan::Signature &signature, const plan::Program &program,
                   std::unique_ptr<Executor> loaded, llvm::ArrayRef<plan::Transfer> transfers)
    : program(program), executor(std::move(loaded)), readers(program.outputs.size()) {
  for (uint32_t leaf = 0; leaf < signature.outputs.size(); ++leaf)
    if (signature.outputs[leaf]->stage == program.stage)
      leaves.push_back({signature.outputs[leaf]->index, leaf});
  for (const plan::Transfer &transfer : transfers)
    if (transfer.from == program.stage)
      for (uint32_t result : transfer.results)
        ++readers[result];
  results.reserve(program.outputs.size());
}

void StageRun::receive(const plan::Transfer &transfer, std::vector<c10::IValue> values) {
  for (size_t i = 0; i < values.size(); ++i)
    executor->setInput(transfer.inputs[i], std::move(values[i]));
}

void StageRun::forward(Request &request) {
  for (size_t input = 0; input < program.inputs.size(); ++input)
    if (program.inputs[input]->source == plan::Source::Request)
      executor->setInput(input, request.input(program.inputs[input]->index));
  executor->run(request.symbols(), request.failed(), results);
  for (auto [result, leaf] : leaves) {
    TORCH_CHECK(results[result].isTensor(), "output ", leaf, " is a ", results[result].tagKind(),
                ", expected a tensor");
    request.setOutput(leaf, movedTo(c10::kCPU, results[result]).toTensor());
  }
  readersLeft = readers;
  for (size_t result = 0; result < results.size(); ++result)
    if (readers[result] == 0)
      results[result] = c10::IValue();
}

std::vector<c10::IValue> StageRun::take(const plan::Transfer &transfer) {
  std::vector<c10::IValue> values;
  values.reserve(transfer.results.size());
  for (uint32_t result : transfer.results) {
    c10::IValue &value = results[result];
    values.push_back(--readersLeft[result] == 0 ? std::move(value) : value);
  }
  return values;
}

void StageRun::clear() {
  results.clear();
  executor->clear();
}

} // namespace cleave::runtime
