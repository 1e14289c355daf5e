//===- device.h - What c10d's ProcessGroupGloo points to ----------*- C++ -*-===//
//
// Declarations alone; rendezvous/store.h says why.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_GLOO_TRANSPORT_DEVICE_H
#define CLEAVE_RUNTIME_COMM_PROCESS_GLOO_TRANSPORT_DEVICE_H

namespace gloo::transport {

class Device;

class UnboundBuffer {
public:
  virtual ~UnboundBuffer();
};

} // namespace gloo::transport

#endif // CLEAVE_RUNTIME_COMM_PROCESS_GLOO_TRANSPORT_DEVICE_H
