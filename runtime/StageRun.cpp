//===- StageRun.cpp -------------------------------------------------------===//
#include "runtime/StageRun.h"

namespace cleave::runtime {

StageRun::StageRun(const plan::Signature &signature, const plan::Program &program,
                   std::unique_ptr<Executor> loaded, const States &states,
                   llvm::ArrayRef<plan::Transfer> transfers, uint32_t microbatches)
    : program(program), executor(std::move(loaded)), states(states), readers(program.outputs.size()) {
  for (uint32_t leaf = 0; leaf < signature.outputs.size(); ++leaf)
    if (signature.outputs[leaf]->stage == program.stage && program.tp_rank == 0)
      leaves.push_back({signature.outputs[leaf]->index, leaf});
  for (const plan::Transfer &transfer : transfers)
    if (transfer.from == program.stage)
      for (uint32_t result : transfer.results)
        ++readers[result];
  passages.resize(microbatches);
}

StageRun::Passage &StageRun::passageOf(uint32_t microbatch) {
  Passage &passage = passages[microbatch];
  // When it is first met: an untrusted plan may have more micro-batches than any batch has samples.
  if (passage.inputs.size() != program.inputs.size()) {
    passage.inputs.resize(program.inputs.size());
    passage.results.reserve(program.outputs.size());
  }
  return passage;
}

void StageRun::receive(const plan::Transfer &transfer, uint32_t microbatch,
                       llvm::MutableArrayRef<c10::IValue> values) {
  TORCH_INTERNAL_ASSERT(values.size() == transfer.inputs.size(), "values of a transfer");
  Passage &passage = passageOf(microbatch);
  for (size_t i = 0; i < values.size(); ++i)
    passage.inputs[transfer.inputs[i]] = std::move(values[i]);
}

void StageRun::run(Request &request, uint32_t global, Passage &passage) {
  for (size_t input = 0; input < program.inputs.size(); ++input)
    if (const plan::ProgramInput &source = *program.inputs[input]; source.source == plan::Source::Request)
      passage.inputs[input] = request.input(source.index, global);
  const llvm::ArrayRef<int64_t> symbols = request.microbatches.symbols(global);
  if (graph)
    return graph->run(passage.inputs, symbols, request.failed(), passage.results);
  for (size_t input = 0; input < program.inputs.size(); ++input)
    executor->setInput(input, std::move(passage.inputs[input]));
  executor->run(symbols, request.failed(), passage.results);
}

void StageRun::forward(Request &request, uint32_t microbatch, uint32_t global) {
  Passage &passage = passageOf(microbatch);
  run(request, global, passage);
  std::vector<c10::IValue> &results = passage.results;
  for (auto [result, leaf] : leaves) {
    TORCH_CHECK(results[result].isTensor(), "output ", leaf, " is a ", results[result].tagKind(),
                ", expected a tensor");
    request.addOutput(leaf, global, states.apart(results[result].toTensor()));
  }
  passage.readersLeft = readers;
  for (size_t result = 0; result < results.size(); ++result)
    if (readers[result] == 0)
      results[result] = c10::IValue();
}

void StageRun::take(const plan::Transfer &transfer, uint32_t microbatch, std::vector<c10::IValue> &values) {
  Passage &passage = passageOf(microbatch);
  values.clear();
  for (uint32_t result : transfer.results) {
    c10::IValue &value = passage.results[result];
    values.push_back(--passage.readersLeft[result] == 0 ? std::move(value) : value);
  }
}

void StageRun::clear() {
  for (Passage &passage : passages) {
    passage.inputs.assign(passage.inputs.size(), c10::IValue());
    passage.results.clear();
  }
  executor->clear();
}

} // namespace cleave::runtime
