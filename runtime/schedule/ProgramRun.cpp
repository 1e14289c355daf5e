//===- ProgramRun.cpp -------------------------------------------------------===//
#include "runtime/schedule/ProgramRun.h"
#include "runtime/base/Exceptions.h"
#include <stdexcept>

namespace cleave::runtime {

size_t transferCount(const plan::Plan &plan, uint32_t signature) {
  return plan::transfers(plan, signature).size() +
         plan::transfers(plan, signature, plan::Phase::BackwardInput).size();
}

std::vector<ValueFlow> flowsOf(const plan::Plan &plan, uint32_t signature) {
  std::vector<ValueFlow> flows;
  for (plan::Phase phase : {plan::Phase::Forward, plan::Phase::BackwardInput})
    for (plan::Transfer &transfer : plan::transfers(plan, signature, phase))
      flows.push_back(
          {transfer.source(), transfer.target(), std::move(transfer.results), std::move(transfer.inputs)});
  for (plan::Stash &stash : plan::stashes(plan, signature))
    flows.push_back({{stash.stage, stash.from},
                     {stash.stage, stash.to},
                     std::move(stash.results),
                     std::move(stash.inputs)});
  return flows;
}

ProgramRun::ProgramRun(const plan::Plan &plan, const plan::Program &program, std::unique_ptr<Executor> loaded,
                       uint32_t rankPosition, llvm::ArrayRef<ValueFlow> flows, uint32_t microbatches)
    : signature(*plan.signatures[program.signature]), program(program), executor(std::move(loaded)),
      rankPosition(rankPosition),
      changesWeights(llvm::any_of(plan.weights, [](const auto &weight) { return weight->trainable; })),
      readers(program.outputs.size()) {
  for (uint32_t leaf = 0; leaf < signature.outputs.size(); ++leaf)
    if (signature.outputs[leaf]->stage == program.stage && signature.outputs[leaf]->phase == program.phase &&
        program.tp_rank == 0)
      leaves.push_back({signature.outputs[leaf]->index, leaf});
  for (const ValueFlow &flow : flows)
    if (flow.source == key())
      for (uint32_t result : flow.results)
        ++readers[result];
  microbatchStates.resize(microbatches);
}

ProgramRun::MicrobatchState &ProgramRun::stateOf(uint32_t microbatch) {
  MicrobatchState &state = microbatchStates[microbatch];
  // Allocated on first use: an untrusted plan may have more micro-batches than any batch has samples.
  if (state.inputs.size() != program.inputs.size()) {
    state.inputs.resize(program.inputs.size());
    state.results.reserve(program.outputs.size());
  }
  return state;
}

void ProgramRun::receive(const ValueFlow &flow, uint32_t microbatch,
                         llvm::MutableArrayRef<c10::IValue> values) {
  TORCH_INTERNAL_ASSERT(values.size() == flow.inputs.size(), "values of a flow");
  MicrobatchState &state = stateOf(microbatch);
  for (size_t i = 0; i < values.size(); ++i)
    state.inputs[flow.inputs[i]] = std::move(values[i]);
}

void ProgramRun::execute(Request &request, const std::array<Communicator *, 2> &groups, uint32_t global,
                         MicrobatchState &state) {
  for (size_t input = 0; input < program.inputs.size(); ++input)
    if (const plan::ProgramInput &source = *program.inputs[input]; source.source == plan::Source::Request)
      state.inputs[input] = request.input(source.index, global);
  const MicrobatchSlice part = partOf(request, global);
  std::optional<Taps> taps;
  if (request.captures && program.phase == plan::Phase::Forward)
    taps = request.captures->tapsOf(program.stage, program.tp_rank, part, request.microbatches,
                                    groups[size_t(plan::GroupKind::Tensor)], request.states);
  const ExecutionContext context{request.microbatches.symbols(global),
                                 request.cancellation.flag(),
                                 groups,
                                 &request.states,
                                 part,
                                 request.refusesNan,
                                 taps ? &*taps : nullptr};
  // A graph has no values between its operators.
  if (graph && !taps)
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

MicrobatchSlice ProgramRun::partOf(const Request &request, uint32_t global) const {
  auto [begin, end] = request.microbatches.samplesOf(global);
  return {rankPosition, global, begin, end - begin};
}

at::Tensor ProgramRun::outputOf(const Request &request, uint32_t global, Leaf leaf,
                                const c10::IValue &result) const {
  TORCH_CHECK(result.isTensor(), "output ", leaf.leaf, " is a ", result.tagKind(), ", expected a tensor");
  try {
    // The next step writes to the weights, and to what shares their memory.
    if (changesWeights)
      return result.toTensor().clone();
    return withOwnElements(request.states.copiedIfAliased(result.toTensor(), partOf(request, global)));
  } catch (const std::exception &exception) {
    const std::string maker = executor->makerOf(leaf.result);
    throw std::runtime_error((maker.empty() ? "" : maker + ": ") + "output " +
                             signature.outputs[leaf.leaf]->name + ": " + messageOf(exception));
  }
}

void ProgramRun::run(Request &request, const std::array<Communicator *, 2> &groups, uint32_t microbatch,
                     uint32_t global, bool givesOutputs) {
  MicrobatchState &state = stateOf(microbatch);
  execute(request, groups, global, state);
  std::vector<c10::IValue> &results = state.results;
  if (givesOutputs && !request.stops())
    for (Leaf leaf : leaves)
      request.addOutput(leaf.leaf, global, outputOf(request, global, leaf, results[leaf.result]));
  state.readersLeft = readers;
  for (size_t result = 0; result < results.size(); ++result)
    if (readers[result] == 0)
      results[result] = c10::IValue();
}

void ProgramRun::take(const ValueFlow &flow, uint32_t microbatch, std::vector<c10::IValue> &values) {
  MicrobatchState &state = stateOf(microbatch);
  values.clear();
  for (uint32_t result : flow.results) {
    c10::IValue &value = state.results[result];
    values.push_back(--state.readersLeft[result] == 0 ? std::move(value) : value);
  }
}

void ProgramRun::clear() {
  for (MicrobatchState &state : microbatchStates) {
    state.inputs.assign(state.inputs.size(), c10::IValue());
    state.results.clear();
  }
  executor->clear();
}

} // namespace cleave::runtime
