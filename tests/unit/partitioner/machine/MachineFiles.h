//===- MachineFiles.h - Machine files that tests write ----------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_MACHINE_MACHINEFILES_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_MACHINE_MACHINEFILES_H

#include "partitioner/machine/MachineFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace cleave {

inline constexpr char kDevice[] =
    R"({"name": "cpu:0", "flops_per_second": 1e11, "memory_bytes_per_second": 2e10,
                                  "operator_seconds": 0, "memory_bytes": 1024})";
inline constexpr char kLink[] = R"({"latency_seconds": 1e-6, "bytes_per_second": 5e9})";

/// A file that goes with the test.
class MachineFiles : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("machine", "json", path)); }
  void TearDown() override { llvm::sys::fs::remove(path); }

  llvm::Expected<Machine> load(llvm::StringRef text) {
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << text;
    EXPECT_FALSE(error);
    return Machine::load(path);
  }
  llvm::Expected<Machine> load(const std::string &devices, const std::string &link) {
    return load("{\"devices\": " + devices + ", \"link\": " + link + "}");
  }
  /// The message that refuses `machine`, without the path that it begins with.
  std::string messageOf(llvm::Expected<Machine> machine) {
    if (machine)
      return "no error";
    const std::string message = llvm::toString(machine.takeError());
    EXPECT_TRUE(llvm::StringRef(message).starts_with(path)) << message;
    return message.substr(std::min(message.size(), path.size()));
  }
  /// For `text` with `from` replaced.
  std::string messageOfChanged(std::string text, const std::string &from, const std::string &to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return messageOf(load(text.replace(at, from.size(), to)));
  }
  /// For a device like kDevice with `from` replaced.
  std::string messageWith(const std::string &from, const std::string &to) {
    return messageOfChanged(std::string("{\"devices\": [") + kDevice + "], \"link\": " + kLink + "}", from,
                            to);
  }

  llvm::SmallString<128> path;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_MACHINE_MACHINEFILES_H
