//===- StageRun.cpp -------------------------------------------------------===//
#include "runtime/schedule/StageRun.h"
#include "runtime/base/Exceptions.h"
#include <stdexcept>

namespace cleave::runtime {

StageRun::StageRun(const plan::Signature &signature, const plan::Program &program,
                   std::unique_ptr<Executor> loaded, const States &states,
                   llvm::ArrayRef<plan::Transfer> transfers, uint32_t microbatches)
    : signature(signature), program(program), executor(std::move(loaded)), states(states),
      readers(program.outputs.size()) {
  for (uint32_t leaf = 0; leaf < signature.outputs.size(); ++leaf)
    if (signature.outputs[leaf]->stage == program.stage && program.tp_rank == 0)
      leaves.push_back({signature.outputs[leaf]->index, leaf});
  for (const plan::Transfer &transfer : transfers)
    if (transfer.from == program.stage)
      for (uint32_t result : transfer.results)
        ++readers[result];
  microbatchStates.resize(microbatches);
}

StageRun::MicrobatchState &StageRun::stateOf(uint32_t microbatch) {
  MicrobatchState &state = microbatchStates[microbatch];
  // Allocated on first use: an untrusted plan may have more micro-batches than any batch has samples.
  if (state.inputs.size() != program.inputs.size()) {
    state.inputs.resize(program.inputs.size());
    state.results.reserve(program.outputs.size());
  }
  return state;
}

void StageRun::receive(const plan::Transfer &transfer, uint32_t microbatch,
                       llvm::MutableArrayRef<c10::IValue> values) {
  TORCH_INTERNAL_ASSERT(values.size() == transfer.inputs.size(), "values of a transfer");
  MicrobatchState &state = stateOf(microbatch);
  for (size_t i = 0; i < values.size(); ++i)
    state.inputs[transfer.inputs[i]] = std::move(values[i]);
}

void StageRun::run(Request &request, Communicator *tensorGroup, uint32_t global, MicrobatchState &state) {
  for (size_t input = 0; input < program.inputs.size(); ++input)
    if (const plan::ProgramInput &source = *program.inputs[input]; source.source == plan::Source::Request)
      state.inputs[input] = request.input(source.index, global);
  const ExecutionContext context{request.microbatches.symbols(global), request.cancellation.flag(),
                                 tensorGroup};
  if (graph)
    return graph->run(state.inputs, context, state.results);
  for (size_t input = 0; input < program.inputs.size(); ++input)
    executor->setInput(input, std::move(state.inputs[input]));
  executor->run(context, state.results);
}

/// `tensor`, or a copy if its elements share memory, as after `expand`: whoever reads or writes all elements
/// needs the memory, and the account of this thread counts it.
static at::Tensor withOwnElements(const at::Tensor &tensor) {
  const size_t most = tensor.storage().nbytes() / tensor.itemsize();
  return size_t(tensor.numel()) > most ? tensor.contiguous() : tensor;
}

at::Tensor StageRun::outputOf(Leaf leaf, const c10::IValue &result) const {
  TORCH_CHECK(result.isTensor(), "output ", leaf.leaf, " is a ", result.tagKind(), ", expected a tensor");
  try {
    return withOwnElements(states.copiedIfAliased(result.toTensor()));
  } catch (const std::exception &exception) {
    const std::string maker = executor->makerOf(leaf.result);
    throw std::runtime_error((maker.empty() ? "" : maker + ": ") + "output " +
                             signature.outputs[leaf.leaf]->name + ": " + messageOf(exception));
  }
}

void StageRun::forward(Request &request, Communicator *tensorGroup, uint32_t microbatch, uint32_t global) {
  MicrobatchState &state = stateOf(microbatch);
  run(request, tensorGroup, global, state);
  std::vector<c10::IValue> &results = state.results;
  for (Leaf leaf : leaves)
    request.addOutput(leaf.leaf, global, outputOf(leaf, results[leaf.result]));
  state.readersLeft = readers;
  for (size_t result = 0; result < results.size(); ++result)
    if (readers[result] == 0)
      results[result] = c10::IValue();
}

void StageRun::take(const plan::Transfer &transfer, uint32_t microbatch, std::vector<c10::IValue> &values) {
  MicrobatchState &state = stateOf(microbatch);
  values.clear();
  for (uint32_t result : transfer.results) {
    c10::IValue &value = state.results[result];
    values.push_back(--state.readersLeft[result] == 0 ? std::move(value) : value);
  }
}

void StageRun::clear() {
  for (MicrobatchState &state : microbatchStates) {
    state.inputs.assign(state.inputs.size(), c10::IValue());
    state.results.clear();
  }
  executor->clear();
}

} // namespace cleave::runtime
