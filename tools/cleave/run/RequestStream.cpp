//===- RequestStream.cpp - Many requests in one file ----------------------===//
#include "tools/cleave/run/RequestStream.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>

namespace cleave {

using runtime::describe;

llvm::Expected<Requests> splitRequests(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs) {
  Requests requests;
  std::vector<std::string> symbols;
  for (const auto &symbol : signature.symbols)
    symbols.push_back(symbol->name);
  for (auto [input, tensor] : llvm::zip(signature.inputs, inputs)) {
    const size_t rank = input->type->dims.size();
    if (size_t(tensor.dim()) != rank + 1 || tensor.size(0) == 0)
      return llvm::createStringError(
          "input " + input->name + ": found " + describe(tensor) + ", expected " +
          describe(*input->type, symbols) +
          " of each request of --stream along one more dimension in front; " +
          (size_t(tensor.dim()) == rank
               ? "stack the requests, or leave --stream out"
               : "give it " + llvm::Twine(rank + 1) + " dimensions and at least one request"));
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

llvm::Expected<std::vector<at::Tensor>> joinRequests(const plan::Signature &signature,
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
