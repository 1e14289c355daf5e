//===- context.h - The context that c10d's ProcessGroupGloo keeps -*- C++ -*-===//
//
// Declarations alone; rendezvous/store.h says why.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_GLOO_CONTEXT_H
#define CLEAVE_RUNTIME_COMM_PROCESS_GLOO_CONTEXT_H

#include <chrono>

namespace gloo {

class Context {
public:
  void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo

#endif // CLEAVE_RUNTIME_COMM_PROCESS_GLOO_CONTEXT_H
