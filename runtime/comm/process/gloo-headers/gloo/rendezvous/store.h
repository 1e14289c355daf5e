//===- store.h - The base of c10d's GlooStore --------------------*- C++ -*-===//
//
// What c10d's ProcessGroupGloo.hpp overrides, as Gloo declares it. The torch wheel has no headers of Gloo,
// and Debian's are of another version. Nothing here is defined: the compiled code is libtorch's. A test checks that
// our libraries contain no code of these classes (tests/check_gloo_symbols.py).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_GLOO_RENDEZVOUS_STORE_H
#define CLEAVE_RUNTIME_COMM_PROCESS_GLOO_RENDEZVOUS_STORE_H

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// Makes ProcessGroupGloo.hpp declare the functions below that came with the second version of the interface.
#define GLOO_STORE_HAS_STORE_V2 1

namespace gloo {

class IStore {
public:
  virtual ~IStore();
  virtual void set(const std::string &key, const std::vector<char> &value) = 0;
  virtual std::vector<char> get(const std::string &key) = 0;
  virtual std::vector<char> wait_get(const std::string &key, const std::chrono::milliseconds &timeout);
  virtual void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout) = 0;
  virtual bool has_v2_support() = 0;
  virtual std::vector<std::vector<char>> multi_get(const std::vector<std::string> &keys) = 0;
  virtual void multi_set(const std::vector<std::string> &keys,
                         const std::vector<std::vector<char>> &values) = 0;
  virtual void append(const std::string &key, const std::vector<char> &value) = 0;
  virtual int64_t add(const std::string &key, int64_t value) = 0;
};

namespace rendezvous {

class Store : public IStore {
public:
  virtual void wait(const std::vector<std::string> &keys) = 0;
};

} // namespace rendezvous
} // namespace gloo

#endif // CLEAVE_RUNTIME_COMM_PROCESS_GLOO_RENDEZVOUS_STORE_H
