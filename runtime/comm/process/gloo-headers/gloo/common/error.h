//===- error.h - Included by c10d's ProcessGroupGloo.hpp ---------*- C++ -*-===//
//
// Empty: nothing of it is used there. rendezvous/store.h says why it is here.
//
//===----------------------------------------------------------------------===//
