//===- PickleCheckTest.cpp - Whether a pickle asks for more than it holds -===//
#include "frontend/archive/PickleCheck.h"
#include <ATen/core/ivalue.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>

using namespace cleave;

namespace {
/// The error of a check; empty when the pickle is accepted.
std::string errorOf(llvm::StringRef pickle) {
  return llvm::toString(checkPickle({pickle.bytes_begin(), pickle.bytes_end()}));
}

std::string pickleOf(const c10::IValue &value) {
  std::vector<char> bytes = torch::jit::pickle(value);
  return {bytes.begin(), bytes.end()};
}
} // namespace

TEST(PickleCheck, AcceptsWhatLibtorchWrites) {
  c10::Dict<std::string, int64_t> sizes;
  for (int64_t i = 0; i < 300; ++i)
    sizes.insert("a size with a name that is longer than others " + std::to_string(i), i << (i % 40));
  auto values =
      c10::ivalue::Tuple::create({sizes, c10::List<double>({1.5, -2.0}), c10::List<bool>({true, false}),
                                  c10::IValue(), at::Device(at::kCPU), c10::complex<double>(1, 2),
                                  std::numeric_limits<int64_t>::min(), std::string(5000, '(')});
  EXPECT_EQ(errorOf(pickleOf(values)), "");
}

TEST(PickleCheck, ReadsNoFurtherThanThePickle) {
  std::string pickle = pickleOf(c10::List<std::string>({"one", "two"}));
  // Without spare room behind the bytes, so that sanitizers see every step too far.
  for (size_t size = 0; size < pickle.size(); ++size) {
    std::vector<uint8_t> part(pickle.begin(), pickle.begin() + size);
    part.shrink_to_fit();
    llvm::consumeError(checkPickle(part));
  }
  EXPECT_EQ(errorOf("ctorch"), "");
  EXPECT_EQ(errorOf("K"), "opcode at byte 0 of 1 is cut off");
}

TEST(PickleCheck, RefusesLongStrings) {
  EXPECT_EQ(errorOf(llvm::StringRef("\x80\x02X\xff\xff\xff\x7f"
                                    "abc.",
                                    11)),
            "opcode at byte 2 of 11 begins a string of 2147483647 bytes, of which 4 are there");
}

TEST(PickleCheck, RefusesDistantPlaces) {
  EXPECT_EQ(errorOf(llvm::StringRef("\x80\x02)r\x00\x00\x00\x40.", 9)),
            "opcode at byte 3 of 9 writes place 1073741824 of a table, more than there are bytes");
}
