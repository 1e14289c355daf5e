//===- Stream.cpp - Many requests in one file -----------------------------===//
#include "tools/cleave/Stream.h"
#include "runtime/Values.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>

namespace cleave {

using runtime::describe;

llvm::Expected<Requests> splitStream(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs) {
  Requests requests;
  for (auto [input, tensor] : llvm::zip(signature.inputs, inputs)) {
    if (tensor.dim() == 0 || tensor.size(0) == 0)
      return llvm::createStringError("input " + input->name + ": found " + describe(tensor) +
                                     ", expected the requests of --stream along one more dimension in front");
    if (requests.empty())
      requests.resize(tensor.size(0));
    if (int64_t(requests.size()) != tensor.size(0))
      return llvm::createStringError("input " + input->name + ": found " + describe(tensor) + ", but " +
                                     signature.inputs.front()->name + " has " + llvm::Twine(requests.size()) +
                                     " requests in front; give all inputs as many");
    for (auto [i, request] : llvm::enumerate(requests))
      request.push_back(tensor.select(0, int64_t(i)));
  }
  // A model without inputs has one request to answer.
  return requests.empty() ? Requests(1) : std::move(requests);
}

llvm::Expected<std::vector<at::Tensor>> joinStream(const plan::Signature &signature,
                                                   const Requests &outputs) {
  std::vector<at::Tensor> joined;
  for (auto [leaf, output] : llvm::enumerate(signature.outputs)) {
    std::vector<at::Tensor> parts;
    for (const std::vector<at::Tensor> &request : outputs) {
      parts.push_back(request[leaf]);
      if (parts.back().sizes() != parts.front().sizes() || parts.back().dtype() != parts.front().dtype())
        return llvm::createStringError("output " + output->name + ": request " +
                                       llvm::Twine(parts.size() - 1) + " gives " + describe(parts.back()) +
                                       ", the first " + describe(parts.front()) +
                                       "; --stream takes requests whose outputs are of one size");
    }
    joined.push_back(at::stack(parts));
  }
  return joined;
}

} // namespace cleave
