//===- HeterogeneousMachineFileTest.cpp - Machines of heterogeneous devices -------------===//
#include "tests/unit/partitioner/machine/MachineFiles.h"
#include <cstring>

using namespace cleave;

namespace {
/// Three devices: one with figures, two of a kind with tables, and a link that differs.
class UnlikeFiles : public MachineFiles {
protected:
  static std::string text() {
    return std::string("{\"devices\": [") + kDevice +
           R"(, {"name": "cpu:1", "kind": "slow", "memory_bytes": 512}, {"name": "cpu:2", "kind": "slow"}],
  "kinds": {"slow": {"flops_per_second": 1e10, "memory_bytes_per_second": 1e9, "operator_seconds": 1e-3,
                     "memory": {"bytes": [1000], "bytes_per_second": [5e8]}}},
  "links": [{"from": "cpu:1", "to": "cpu:0", "latency_seconds": 1e-3, "bytes_per_second": 1e6},
            {"from": "cpu:1", "to": "cpu:2", "latency_seconds": 0, "bytes_per_second": 1e7}],
  "link": )" +
           kLink + "}";
  }
  std::string messageOfUnlike(const std::string &from, const std::string &to) {
    return messageOfChanged(text(), from, to);
  }
};
} // namespace

TEST_F(UnlikeFiles, GiveKindsAndLinks) {
  const Machine machine = llvm::cantFail(load(text()));
  EXPECT_EQ(machine.devices[0], (DeviceSpec{"cpu:0", 1e11, 2e10, 0, 1024}));
  EXPECT_EQ(machine.devices[1].flopsPerSecond, 1e10);
  EXPECT_EQ(machine.devices[1].memoryBytes, 512);
  EXPECT_FALSE(machine.devices[2].memoryBytes);
  EXPECT_EQ(machine.devices[1].rates->otherOperators.at({7}), 5e8);
  EXPECT_TRUE(machine.devices[1].computesLike(machine.devices[2]));
  EXPECT_FALSE(machine.devices[0].computesLike(machine.devices[2]));
  const Link slow{1e-3, 1e6}, medium{0, 1e7};
  const std::map<std::pair<uint32_t, uint32_t>, Link> links{
      {{0, 1}, slow}, {{1, 0}, slow}, {{1, 2}, medium}, {{2, 1}, medium}};
  EXPECT_EQ(machine.linkOverrides, links);
}

TEST_F(UnlikeFiles, HaveTwoDirectionsWhereBothAreGiven) {
  EXPECT_EQ(messageOfUnlike(R"({"from": "cpu:1", "to": "cpu:2")", R"({"from": "cpu:0", "to": "cpu:1")"),
            "no error");
  const Machine machine = llvm::cantFail(Machine::load(path));
  EXPECT_EQ(machine.linkOverrides.at({1, 0}).bytesPerSecond, 1e6);
  EXPECT_EQ(machine.linkOverrides.at({0, 1}).bytesPerSecond, 1e7);
  EXPECT_EQ(machine.linkOverrides.size(), 2u);
  EXPECT_EQ(llvm::cantFail(load(machineFileText(machine))).linkOverrides, machine.linkOverrides);
}

/// A file may list all pairs.
TEST_F(UnlikeFiles, DifferInNothingWhereAllLinksAreAlike) {
  EXPECT_EQ(messageOfUnlike("\"latency_seconds\": 1e-3, \"bytes_per_second\": 1e6",
                            std::string(kLink).substr(1, strlen(kLink) - 2)),
            "no error");
  EXPECT_EQ(llvm::cantFail(Machine::load(path)).linkOverrides.size(), 2u);
  // Of two ways one.
  EXPECT_EQ(
      messageOfUnlike(R"({"from": "cpu:1", "to": "cpu:2", "latency_seconds": 0, "bytes_per_second": 1e7})",
                      std::string(R"({"from": "cpu:0", "to": "cpu:1", )") + (kLink + 1)),
      "no error");
  EXPECT_EQ(llvm::cantFail(Machine::load(path)).linkOverrides.size(), 2u);
}

/// Whatever kinds are called.
TEST_F(UnlikeFiles, AreWhatIsWritten) {
  const Machine machine = llvm::cantFail(load(text()));
  const std::string written = machineFileText(machine);
  const Machine again = llvm::cantFail(load(written));
  EXPECT_EQ(machineFileText(again), written);
  EXPECT_EQ(again.linkOverrides, machine.linkOverrides);
  for (unsigned device = 0; device < 3; ++device) {
    EXPECT_TRUE(again.devices[device].computesLike(machine.devices[device]));
    EXPECT_EQ(again.devices[device].memoryBytes, machine.devices[device].memoryBytes);
  }
  std::string renamed = text();
  for (size_t at = 0; (at = renamed.find("\"slow\"", at)) != std::string::npos; ++at)
    renamed.replace(at, 6, "\"weak\"");
  EXPECT_EQ(checksumOf(llvm::cantFail(load(renamed))), checksumOf(machine));
  Machine other = machine;
  other.linkOverrides[{1, 2}].bytesPerSecond = 2e7;
  EXPECT_NE(checksumOf(other), checksumOf(machine));
}

/// What machines of alike devices say does not depend on this.
TEST_F(MachineFiles, KeepTheChecksumOfAlikeDevices) {
  EXPECT_EQ(checksumOf(Machine::cpu(2)), "2873a272a6cf211dd10f251772188d65bc706be4509e56982999e2607a1209a9");
  EXPECT_EQ(checksumOf(llvm::cantFail(Machine::load("h100:16"))),
            "2288c0e82352c8fb5783379eaf7c185171a46c66a1fdda0295ff2668e1233588");
  EXPECT_EQ(machineFileText(llvm::cantFail(Machine::load("h100:16"))).find("kind"), std::string::npos);
}

TEST_F(MachineFiles, MayDifferInMemoryAndCallsWithoutKinds) {
  std::string other = kDevice;
  other.replace(other.find("cpu:0"), 5, "cpu:1");
  other.replace(other.find("1024"), 4, "2048");
  other.replace(other.find("1e11"), 4, "1e10");
  const Machine machine = llvm::cantFail(load(std::string("[") + kDevice + "," + other + "]", kLink));
  EXPECT_EQ(machine.devices[1], (DeviceSpec{"cpu:1", 1e10, 2e10, 0, 2048}));
  EXPECT_EQ(llvm::cantFail(load(machineFileText(machine))).devices, machine.devices);
}

TEST_F(UnlikeFiles, RefuseKindsThatAreNone) {
  for (auto [from, to, message] :
       {std::tuple("\"kind\": \"slow\"", "\"kind\": \"slo\"",
                   "devices[1].kind: found \"slo\", expected one of \"kinds\": slow"),
        {"\"kind\": \"slow\"", "\"kind\": 7", "devices[1].kind: found 7, expected one of \"kinds\": slow"},
        {"\"memory_bytes\": 512", "\"memory_bytes\": 0",
         "devices[1].memory_bytes: found 0, expected an integer from 1 to 9223372036854775807; leave the key "
         "out where "
         "memory is not limited"},
        {"\"memory_bytes\": 512", "\"memory_bytes\": 1e30",
         "devices[1].memory_bytes: found 1e+30, expected an integer from 1 to 9223372036854775807; leave the "
         "key out where "
         "memory is not limited"},
        {"\"memory_bytes\": 512", "\"flops_per_second\": 512",
         "devices[1].flops_per_second: found 512 beside kind \"slow\", expected one of the two, since kinds "
         "give figures; drop "
         "one, or give this device a kind of its own"},
        {"\"memory_bytes\": 512", "\"operator_seconds\": \"x\"",
         "devices[1].operator_seconds: found \"x\" beside kind \"slow\", expected one of the two, since "
         "kinds give figures; drop "
         "one, or give this device a kind of its own"},
        {"\"memory_bytes\": 512", "\"flops\": 512",
         "devices[1]: the key \"flops\" is unknown; use name, kind, memory_bytes, threads"},
        {"\"flops_per_second\": 1e10", "\"flops_per_second\": -1e10",
         "kinds.slow.flops_per_second: found -10000000000, expected a number from 1 to 1e+21"},
        {"\"operator_seconds\": 1e-3", "\"operator_seconds\": 1e-3, \"memory_bytes\": 7",
         "kinds.slow: the key \"memory_bytes\" is unknown; use flops_per_second, memory_bytes_per_second, "
         "operator_seconds, "
         "products, operators, memory"},
        {"\"flops_per_second\": 1e10, ", "",
         "kinds.slow: the key \"flops_per_second\" is missing; keys that must be there: flops_per_second, "
         "memory_bytes_per_second, operator_seconds"},
        {"\"bytes\": [1000]", "\"bytes\": []",
         "kinds.slow.memory.bytes: found 0 values, expected an array of 1 to 4096 numbers"},
        {"\"kinds\": {", "\"kinds\": {\"fast\": 7, ",
         "kinds.fast: found 7, expected an object with the figures of devices of this kind"},
        {"\"kinds\": {", "\"kinds\": {\"\": {}, ",
         "kinds: the name of a kind: found \"\", expected 1 to 64 printable ASCII characters"}})
    EXPECT_EQ(messageOfUnlike(from, to), std::string(": ") + message);
  EXPECT_EQ(messageOf(load(R"([{"name": "a", "kind": "x"}])", kLink)),
            ": devices[0].kind: found \"x\", expected one of \"kinds\", of which there are none");
}

TEST_F(UnlikeFiles, RefuseLinksThatAreNone) {
  for (auto [from, to, message] :
       {std::tuple("\"to\": \"cpu:2\"", "\"to\": \"cpu:3\"",
                   "links[1].to: found \"cpu:3\", expected the name of a device; did you mean cpu:0?"),
        {"\"from\": \"cpu:1\"", "\"from\": 1",
         "links[0].from: found 1, expected the name of a device, such as \"cpu:0\""},
        {"\"to\": \"cpu:2\"", "\"to\": \"elsewhere\"",
         "links[1].to: found \"elsewhere\", expected the name of a device, such as \"cpu:0\""},
        {"\"to\": \"cpu:0\"", "\"to\": \"cpu:1\"",
         "links[0]: goes from \"cpu:1\" to itself; give two devices"},
        {"\"to\": \"cpu:2\"", "\"to\": \"cpu:0\"",
         "links[1]: goes from \"cpu:1\" to \"cpu:0\", as links[0] does; give each direction once"},
        {"\"bytes_per_second\": 1e6", "\"bytes_per_second\": 0",
         "links[0].bytes_per_second: found 0, expected a number from 1 to 1e+21"},
        {"\"latency_seconds\": 1e-3", "\"latency_seconds\": -1",
         "links[0].latency_seconds: found -1, expected a number from 0 to 1000"},
        {", \"latency_seconds\": 1e-3", "",
         "links[0]: the key \"latency_seconds\" is missing; keys that must be there: from, to, "
         "latency_seconds, bytes_per_second"},
        {"\"links\": [", "\"links\": [7, ",
         "links[0]: found 7, expected an object with from, to, latency_seconds and bytes_per_second"}})
    EXPECT_EQ(messageOfUnlike(from, to), std::string(": ") + message);
  EXPECT_EQ(messageWith("\"link\"", "\"links\": {}, \"link\""),
            ": links: found an object, expected an array of links between two devices");
}

TEST_F(UnlikeFiles, RefuseTablesInCommonOfUnlikeKinds) {
  const std::string tables = R"("memory": {"bytes": [1000], "bytes_per_second": [5e8]}})",
                    slow = R"("kinds": {)";
  auto withKind = [&](const std::string &figures) {
    return messageOfUnlike(slow, slow + R"("fast": {"operator_seconds": 1e-3, )" + figures + tables + ", ");
  };
  EXPECT_EQ(withKind(R"("flops_per_second": 1e11, "memory_bytes_per_second": 1e9, )"),
            ": kinds.slow: its figures differ from those of fast, but its tables are the same; give each "
            "kind tables of its own");
  EXPECT_EQ(withKind(R"("flops_per_second": 1e10, "memory_bytes_per_second": 1e9, )"), "no error");
  // The file's, of its first device.
  const std::string own = tables.substr(0, tables.size() - 1);
  EXPECT_EQ(messageOfUnlike("\"link\":", own + ", \"link\":"),
            ": devices[1]: its figures differ from those of devices[0], but the tables of its kind are the "
            "file's; give its kind "
            "tables of its own");
}
