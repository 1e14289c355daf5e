//===- RunInputs.cpp - Inputs of `cleave run` -----------------------------===//
#include "tools/cleave/run/RunInputs.h"
#include "codegen/plan/files/Checksum.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/exchange/SignatureInputs.h"
#include "tools/cleave/run/RankMessage.h"
#include "tools/cleave/run/RankProcess.h"
#include "llvm/Support/FormatVariadic.h"
#include <ATen/Functions.h>

namespace cleave {

using at::Tensor;
using llvm::Error;
using llvm::Expected;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using runtime::Session;

static Expected<std::vector<Tensor>> readFile(const plan::Signature &signature, const std::string &file) {
  if (file.empty())
    return llvm::createStringError("no inputs were given, expected " + runtime::describeInputs(signature) +
                                   "; pass --inputs with a safetensors file that has them by name");
  auto tensors = runtime::readTensors(file);
  if (!tensors)
    return tensors.takeError();
  return runtime::matchInputs(signature, *tensors, file);
}

/// Types of the inputs, and checksums of their data.
static std::string describe(llvm::ArrayRef<Tensor> inputs) {
  Array all;
  for (const Tensor &input : inputs) {
    const llvm::ArrayRef bytes(static_cast<const uint8_t *>(input.const_data_ptr()), input.nbytes());
    all.push_back(Object{{"dtype", int64_t(input.scalar_type())},
                         {"sizes", Array(input.sizes())},
                         {"checksum", plan::toHex(plan::checksum(bytes))}});
  }
  return llvm::formatv("{0}", Value(std::move(all)));
}

Expected<std::vector<Tensor>> describedInputs(llvm::StringRef words) {
  Expected<Value> all = parseMessage(words);
  auto none = [] { return llvm::createStringError("a message of rank 0: found no description of inputs"); };
  if (!all || !all->getAsArray()) {
    llvm::consumeError(all.takeError());
    return none();
  }
  std::vector<Tensor> inputs;
  for (const Value &value : *all->getAsArray()) {
    const Object *input = value.getAsObject();
    const Array *sizes = input ? input->getArray("sizes") : nullptr;
    const int64_t number = input ? input->getInteger("dtype").value_or(-1) : -1;
    const auto dtype = c10::ScalarType(number);
    if (!sizes || number < 0 || number >= int64_t(c10::ScalarType::Undefined) ||
        runtime::dtypeOf(dtype) == plan::DType::Unknown)
      return none();
    std::vector<int64_t> found;
    for (const Value &size : *sizes)
      found.push_back(size.getAsInteger().value_or(0));
    inputs.push_back(at::empty(found, at::TensorOptions(dtype).device(at::kMeta)));
  }
  return inputs;
}

/// The description of the inputs by the processes that have read them; fails if they differ.
static Expected<std::string> agreeOn(llvm::ArrayRef<std::string> descriptions) {
  std::string agreed = "[]";
  size_t first = 0;
  for (size_t process = 0; process < descriptions.size(); ++process) {
    const std::string &description = descriptions[process];
    if (description.empty() || description == agreed)
      continue;
    if (agreed != "[]")
      return llvm::createStringError(
          "rank %zu was given other inputs than rank %zu; give all ranks the same file", process, first);
    agreed = description;
    first = process;
  }
  return agreed;
}

static Expected<std::vector<Tensor>> readTogether(Session &session, uint32_t signature,
                                                  const std::string &file) {
  std::vector<Tensor> inputs;
  std::string description;
  if (session.needsInputs(signature)) {
    if (Error error = readFile(*session.plan().signatures[signature], file).moveInto(inputs))
      return prefixWithRank(session.process(), std::move(error));
    description = describe(inputs);
  }
  auto descriptions = session.gather(description, 0);
  if (!descriptions)
    return descriptions.takeError();
  std::string agreed;
  if (session.process() == 0)
    if (Error error = agreeOn(*descriptions).moveInto(agreed))
      return error;
  if (Error error = session.broadcast(agreed, 0).moveInto(agreed))
    return error;
  return description.empty() ? runtime::catching([&] { return describedInputs(agreed); }) : std::move(inputs);
}

Expected<Requests> readInputs(Session &session, uint32_t index, const std::string &file, bool isStream) {
  const plan::Signature &signature = *session.plan().signatures[index];
  auto inputs = session.processes() == 1 ? readFile(signature, file) : readTogether(session, index, file);
  if (!inputs)
    return inputs.takeError();
  if (isStream)
    return splitRequests(signature, *inputs);
  return Requests{std::move(*inputs)};
}

} // namespace cleave
