//===- algorithm.h - Included by c10d's ProcessGroupGloo.hpp ---------*- C++ -*-===//
//
// Empty stand-in: ProcessGroupGloo.hpp includes this header and uses nothing of it. rendezvous/store.h says
// why it is here.
//
//===----------------------------------------------------------------------===//
