//===- Fuzz.h - What the fuzz targets share ---------------------*- C++ -*-===//
//
// A target is a program that links libFuzzer and defines `seeds` and `test`. libFuzzer mutates the seeds and
// calls `test` with each result. A case that crashes, takes more than 1 s of CPU time (5 s with sanitizers)
// or breaks a promise is written to a file, and `fuzzPlan FILE` runs it again.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TESTS_FUZZ_FUZZ_H
#define CLEAVE_TESTS_FUZZ_FUZZ_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::fuzz {

/// Seeds of the target. The working directory is the target's own.
std::vector<std::string> seeds();

/// Runs one case. False if it was rejected so early that mutating it further is useless.
bool test(llvm::ArrayRef<uint8_t> bytes);

/// Keeps the case and ends the program, unless `holds`.
void promise(bool holds, const llvm::Twine &what);

/// Tells libFuzzer how the case ended: the first cases of each outcome are mutated further. Numbers and
/// quoted words in `message` do not distinguish outcomes.
void noteOutcome(llvm::StringRef message);

/// Runs `work(bytes)` in a child process with bounded memory and time; a crash breaks a promise.
/// `noteOutcome` works in the child. Returns what `work` returns. `work` must be the same function in every
/// call: a child runs many cases, since `fork` takes longer than most of them.
bool inChild(llvm::ArrayRef<uint8_t> bytes, bool (*work)(llvm::ArrayRef<uint8_t>));
/// In the child: ends it as if `work` had returned `isUseful`.
[[noreturn]] void endChild(bool isUseful);

/// Random bytes of a mutation; equal for equal seeds.
class Dice {
public:
  explicit Dice(unsigned seed) : state(seed * 2 + 1) {}
  /// A number below `end`.
  size_t below(size_t end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % end;
  }

private:
  uint64_t state;
};

/// A file in memory, and its path.
class MemoryFile {
public:
  explicit MemoryFile(llvm::ArrayRef<uint8_t> bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  const std::string path;

private:
  explicit MemoryFile(int file);
  const int file;
};

inline llvm::ArrayRef<uint8_t> bytesOf(llvm::StringRef text) { return {text.bytes_begin(), text.size()}; }
inline llvm::StringRef textOf(llvm::ArrayRef<uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

} // namespace cleave::fuzz

/// libFuzzer's own mutation of `size` bytes in a buffer of `most` bytes; returns the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#endif // CLEAVE_TESTS_FUZZ_FUZZ_H
