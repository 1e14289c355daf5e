//===- MachineFileTest.cpp - Machine files --------------------------------===//
#include "tests/unit/partitioner/machine/MachineFiles.h"

using namespace cleave;

TEST_F(MachineFiles, GiveDevicesAndLink) {
  const std::string other =
      R"({"operator_seconds": 0.0, "name": "cuda:1", "flops_per_second": 100000000000, "memory_bytes": 1.024e3,
          "memory_bytes_per_second": 2e10})";
  const Machine machine = llvm::cantFail(load(std::string("[") + kDevice + "," + other + "]", kLink));
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[0], (DeviceSpec{"cpu:0", 1e11, 2e10, 0, 1024}));
  EXPECT_EQ(machine.devices[1], (DeviceSpec{"cuda:1", 1e11, 2e10, 0, 1024}));
  EXPECT_EQ(machine.link.latencySeconds, 1e-6);
  EXPECT_EQ(machine.link.bytesPerSecond, 5e9);
}

TEST_F(MachineFiles, MayLeaveMemoryUnlimited) {
  EXPECT_EQ(messageWith(", \"memory_bytes\": 1024", ""), "no error");
}

TEST_F(MachineFiles, RefuseFiguresOutOfRange) {
  EXPECT_EQ(messageWith("1e11", "-1"),
            ": devices[0].flops_per_second: found -1, expected a number from 1 to 1e+21");
  EXPECT_EQ(messageWith("1e11", "0"),
            ": devices[0].flops_per_second: found 0, expected a number from 1 to 1e+21");
  EXPECT_EQ(messageWith("1e11", "\"fast\""),
            ": devices[0].flops_per_second: found \"fast\", expected a number from 1 to 1e+21");
  EXPECT_EQ(messageWith("2e10", "1e999"),
            ": devices[0].memory_bytes_per_second: found inf, expected a number from 1 to 1e+21");
  EXPECT_EQ(messageWith("\"operator_seconds\": 0", "\"operator_seconds\": 1e4"),
            ": devices[0].operator_seconds: found 10000, expected a number from 0 to 1000");
  EXPECT_EQ(messageWith("1e-6", "null"),
            ": link.latency_seconds: found null, expected a number from 0 to 1000");
  EXPECT_EQ(messageWith("5e9", "[]"),
            ": link.bytes_per_second: found an array, expected a number from 1 to 1e+21");
}

TEST_F(MachineFiles, RefuseNaN) { EXPECT_NE(messageWith("1e11", "NaN"), "no error"); }

TEST_F(MachineFiles, RefuseMemoryThatIsNoByteCount) {
  for (const char *bytes : {"0", "-5", "1.5", "1e300", "\"1024\"", "null"})
    EXPECT_NE(messageWith("1024", bytes).find(": devices[0].memory_bytes: found "), std::string::npos)
        << bytes;
}

TEST_F(MachineFiles, MaySayHowManyThreads) {
  std::string shared = kDevice;
  shared.insert(1, "\"threads\": 4, ");
  const Machine machine = llvm::cantFail(load("[" + shared + "]", kLink)),
                one = llvm::cantFail(load(std::string("[") + kDevice + "]", kLink));
  EXPECT_EQ(machine.devices[0].threads, 4u);
  EXPECT_EQ(one.devices[0].threads, 1u);
  EXPECT_EQ(llvm::cantFail(load(machineFileText(machine))).devices, machine.devices);
  for (const char *threads : {"0", "-1", "1.5", "1025", "\"4\"", "null"})
    EXPECT_NE(messageWith("\"name\"", std::string("\"threads\": ") + threads + ", \"name\"")
                  .find(": devices[0].threads: found "),
              std::string::npos)
        << threads;
}

TEST_F(MachineFiles, RefuseMissingKeys) {
  EXPECT_EQ(messageWith("\"name\": \"cpu:0\", ", ""),
            ": devices[0]: the key \"name\" is missing; keys that must be there: name, flops_per_second, "
            "memory_bytes_per_second, operator_seconds");
  EXPECT_EQ(messageOf(load("{\"devices\": []}")),
            ": the key \"link\" is missing; keys that must be there: devices, link");
  EXPECT_EQ(messageOf(load(std::string("[") + kDevice + "]", "{\"latency_seconds\": 1}")),
            ": link: the key \"bytes_per_second\" is missing; keys that must be there: latency_seconds, "
            "bytes_per_second");
}

TEST_F(MachineFiles, RefuseUnknownKeys) {
  EXPECT_EQ(messageWith("\"name\": \"cpu:0\", ", "\"name\": \"cpu:0\", \"zz\": 1, \"cores\\u001b\": 4, "),
            ": devices[0]: the key \"cores\\u001b\" is unknown; use name, flops_per_second, "
            "memory_bytes_per_second, operator_seconds, memory_bytes, threads");
  EXPECT_EQ(messageWith("\"link\"", "\"linkss\": {}, \"link\""),
            ": the key \"linkss\" is unknown; use devices, link, products, operators, memory, collectives, "
            "nodes, kinds, links; "
            "did you mean links?");
}

TEST_F(MachineFiles, RefuseNamesThatWouldGarbleMessages) {
  for (const char *name :
       {"", "a\\u001b[2J", "\\u00e9", "12345678901234567890123456789012345678901234567890123456789012345"})
    EXPECT_NE(messageWith("cpu:0", name).find(": devices[0].name: found \""), std::string::npos) << name;
  EXPECT_NE(messageWith("\"cpu:0\"", "7").find(": devices[0].name: found 7"), std::string::npos);
}

TEST_F(MachineFiles, RefuseTwoDevicesOfOneName) {
  EXPECT_EQ(messageOf(load(std::string("[") + kDevice + "," + kDevice + "]", kLink)),
            ": devices[1].name: found \"cpu:0\", which is devices[0]'s; give each device a name of its own");
}

TEST_F(MachineFiles, RefuseTheWrongNumberOfDevices) {
  EXPECT_EQ(messageOf(load("[]", kLink)),
            ": devices: found 0 devices, expected an array of 1 to 1024 devices");
  EXPECT_EQ(messageOf(load("{}", kLink)),
            ": devices: found an object, expected an array of 1 to 1024 devices");
  std::string devices = std::string("[") + kDevice;
  for (unsigned index = 0; index < 1024; ++index)
    devices += std::string(",") + kDevice;
  EXPECT_EQ(messageOf(load(devices + "]", kLink)),
            ": devices: found 1025 devices, expected an array of 1 to 1024 devices");
}

TEST_F(MachineFiles, RefuseOtherShapes) {
  EXPECT_EQ(messageOf(load("[]")), ": found an array, expected an object with devices and link");
  EXPECT_EQ(messageOf(load("[7]", kLink)),
            ": devices[0]: found 7, expected an object with a device's figures");
  EXPECT_EQ(messageOf(load(std::string("[") + kDevice + "]", "1")),
            ": link: found 1, expected an object with latency_seconds and bytes_per_second");
}

TEST_F(MachineFiles, RefuseWhatIsNoJson) {
  for (llvm::StringRef text : {"", "{", "{\"devices\": \xff}", "PK\x03\x04", "{} {}", "\"\\"})
    EXPECT_NE(messageOf(load(text)), "no error") << text.str();
}

TEST_F(MachineFiles, RefuseDeepNesting) {
  EXPECT_EQ(messageOf(load(std::string(500000, '['))),
            ": byte 8: more than 8 levels of arrays and objects, a machine file has fewer");
  // Brackets in strings do not count.
  EXPECT_EQ(messageWith("cpu:0", "\\\"[[[[[[[[[["), "no error");
}

TEST_F(MachineFiles, RefuseLargeFilesAndOtherThings) {
  EXPECT_EQ(messageOf(load(std::string((1 << 20) + 1, ' '))),
            ": found 1048577 bytes, expected a regular file of at most 1048576 bytes; give a machine file");
  EXPECT_EQ(llvm::toString(Machine::load("/dev/zero").takeError()),
            "/dev/zero: found no regular file, expected a regular file of at most 1048576 bytes; give a "
            "machine file");
}

TEST_F(MachineFiles, RefuseKeysThatAreGivenTwice) {
  EXPECT_EQ(messageWith("\"link\"", "\"link\": {}, \"link\""),
            ": byte 183: the key \"link\" is given twice; leave one away");
  // However it is spelled.
  EXPECT_EQ(messageWith("\"link\"", "\"link\": {}, \"l\\u0069nk\""),
            ": byte 183: the key \"l\\u0069nk\" is given twice; leave one away");
  // Each device has keys of its own, and what stands in strings is none.
  EXPECT_EQ(messageWith("cpu:0", "\\\"name\\\": "), "no error");
}

//===- What is measured ---------------------------------------------------===//

static const char kMeasured[] =
    R"("products": {"matrix": {"float32": {"count": [1], "rows": [1, 100], "columns": [8], "depth": [8], "flops_per_second": [1e9, 1e11]}}},
  "operators": {"aten.gelu": {"bytes": [1000], "bytes_per_second": [3e9]}},
  "memory": {"bytes": [1000, 100000], "bytes_per_second": [4e10, 1e10]},
  "collectives": {"all_reduce": {"latency_seconds": 1e-5, "ranks": 2, "bytes": [1000], "bytes_per_second": [2e9]}},
  "nodes": {"devices": 2, "latency_seconds": 1e-4, "bytes_per_second": 1e9,
            "collectives": {"all_gather": {"latency_seconds": 1e-3, "ranks": 4, "bytes": [1000], "bytes_per_second": [3e8]}}})";

namespace {
class MeasuredFiles : public MachineFiles {
protected:
  static std::string text() {
    std::string other = kDevice;
    other.replace(other.find("cpu:0"), 5, "cpu:1");
    return std::string("{\"devices\": [") + kDevice + "," + other + "], \"link\": " + kLink + ", " +
           kMeasured + "}";
  }
  std::string messageOfMeasured(const std::string &from, const std::string &to) {
    return messageOfChanged(text(), from, to);
  }
};
} // namespace

TEST_F(MeasuredFiles, GiveRates) {
  const Machine machine = llvm::cantFail(load(text()));
  const KernelRates &rates = *machine.devices[0].rates;
  const RateTable &gemms = rates.gemms.at({GemmKind::Matrix, "float32"});
  // Ten is midway between 1 and 100 in logarithms; beyond the grid the edge counts.
  EXPECT_NEAR(gemms.at({1, 10, 8, 8}), 1e10, 1);
  EXPECT_DOUBLE_EQ(gemms.at({5, 1e6, 1, 1e9}), 1e11);
  EXPECT_DOUBLE_EQ(rates.operators.at("aten.gelu").at({7}), 3e9);
  EXPECT_NEAR(rates.otherOperators.at({1e4}), 2e10, 1);
  // Two of the bytes' halves, and the latency.
  EXPECT_DOUBLE_EQ(machine.collectives.seconds(CollectiveKind::AllReduce, 4e9, 2), 1e-5 + 2);
  EXPECT_DOUBLE_EQ(machine.collectives.seconds(CollectiveKind::AllGather, 5e9, 2), 1e-6 + 0.5);
  EXPECT_EQ(machine.linkAmong(3).bytesPerSecond, 1e9);
  // Over nodes as measured there, or else by the link between them.
  EXPECT_DOUBLE_EQ(machine.collectivesAmong(4).seconds(CollectiveKind::AllGather, 4e8, 4), 1e-3 + 1);
  EXPECT_DOUBLE_EQ(machine.collectivesAmong(4).seconds(CollectiveKind::Broadcast, 1e9, 2), 1e-4 + 1);
}

TEST_F(MeasuredFiles, AreWhatIsWritten) {
  const Machine machine = llvm::cantFail(load(text()));
  const std::string written = machineFileText(machine);
  const Machine again = llvm::cantFail(load(written));
  EXPECT_EQ(*again.devices[0].rates, *machine.devices[0].rates);
  EXPECT_EQ(again.nodes->devices, 2u);
  EXPECT_EQ(again.nodes->collectives, machine.nodes->collectives);
  EXPECT_EQ(machineFileText(again), written);
  EXPECT_EQ(checksumOf(again), checksumOf(machine));
  EXPECT_NE(checksumOf(again), checksumOf(Machine::cpu(2)));
}

TEST_F(MeasuredFiles, RefuseTablesThatAreNone) {
  for (auto [from, to, message] :
       {std::tuple("\"rows\": [1, 100]", "\"rows\": [100, 1]",
                   "products.matrix.float32.rows[1]: found 1 after 100, expected sizes that ascend"),
        {"\"rows\": [1, 100]", "\"rows\": [1, 1]",
         "products.matrix.float32.rows[1]: found 1 after 1, expected sizes that ascend"},
        {"\"rows\": [1, 100]", "\"rows\": []",
         "products.matrix.float32.rows: found 0 values, expected an array of 1 to 4096 numbers"},
        {"\"rows\": [1, 100]", "\"rows\": [1, 2, 3]",
         "products.matrix.float32.flops_per_second: found 2 values, expected an array of 3 numbers"},
        {"[1e9, 1e11]", "[1e9, -1]",
         "products.matrix.float32.flops_per_second[1]: found -1, expected a number from 1 to 1e+21"},
        {"[1e9, 1e11]", "7",
         "products.matrix.float32.flops_per_second: found 7, expected an array of 2 numbers"},
        {"\"float32\"", "\"float31\"",
         "products.matrix: the key \"float31\" is unknown; use float32, bfloat16, float16; did you mean "
         "float32?"},
        {"\"matrix\"", "\"matrices\"",
         "products: the key \"matrices\" is unknown; use matrix, pointwise, convolution, strided, attention"},
        {"\"depth\": [8],", "",
         "products.matrix.float32: the key \"depth\" is missing; keys that must be there: count, rows, "
         "columns, "
         "depth, flops_per_second"},
        {"\"aten.gelu\": {", "\"aten.gelu\": 1, \"x\": {",
         "operators.aten.gelu: found 1, expected an object with bytes, bytes_per_second"},
        {"aten.gelu", "", "operators: found an operator \"\", expected a name like aten.gelu"},
        {"aten.gelu", "gelu", "operators: found an operator \"gelu\", expected a name like aten.gelu"},
        {"aten.gelu", "aten::gelu",
         "operators: found an operator \"aten::gelu\", expected a name like aten.gelu"},
        {"aten.gelu", "aten.gellu",
         "operators: found an operator \"aten.gellu\", expected one that PyTorch has; did you mean "
         "aten.gelu?"},
        {"aten.gelu", "atan.gelu",
         "operators: found an operator \"atan.gelu\", expected one that PyTorch has; did you mean "
         "aten.gelu?"},
        {"aten.gelu", "aten.add.Tensor",
         "operators: found an operator \"aten.add.Tensor\", expected a name without overload, aten.add"},
        {"\"latency_seconds\": 1e-5", "\"latency_seconds\": -1",
         "collectives.all_reduce.latency_seconds: found -1, expected a number from 0 to 1000"},
        {"\"all_reduce\"", "\"all_scatter\"",
         "collectives: the key \"all_scatter\" is unknown; use all_reduce, all_gather, reduce_scatter, "
         "all_to_all, "
         "broadcast; did you mean all_gather?"},
        {"\"nodes\": {\"devices\": 2", "\"nodes\": {\"devices\": 0",
         "nodes.devices: found 0, expected an integer from 1 to 2"},
        {"\"nodes\": {\"devices\": 2", "\"nodes\": {\"devices\": 3",
         "nodes.devices: found 3, expected an integer from 1 to 2"},
        {"\"all_gather\": {", "\"all_gathers\": {",
         "nodes.collectives: the key \"all_gathers\" is unknown; use all_reduce, all_gather, reduce_scatter, "
         "all_to_all, "
         "broadcast; did you mean all_gather?"},
        {"1e-3, \"ranks\": 4", "1e-3, \"ranks\": 1",
         "nodes.collectives.all_gather.ranks: found 1, expected an integer from 2 to 1024"},
        {"\"ranks\": 2", "\"ranks\": 1",
         "collectives.all_reduce.ranks: found 1, expected an integer from 2 to 1024"}})
    EXPECT_EQ(messageOfMeasured(from, to), std::string(": ") + message);
}

TEST_F(MeasuredFiles, NameOperatorsOfLibrariesThatAreNotLoaded) {
  EXPECT_EQ(messageOfMeasured("aten.gelu", "torchvision.nms"), "no error");
  // What Cleave brings along.
  EXPECT_EQ(messageOfMeasured("aten.gelu", "spmd.all_reduce"), "no error");
}

TEST_F(MeasuredFiles, AreWrittenWithoutDigitsThatAreNotNeeded) {
  Machine machine = llvm::cantFail(load(text()));
  machine.link = {0.9, 1e9 / 3};
  const std::string written = machineFileText(machine);
  EXPECT_NE(written.find("\"latency_seconds\": 0.9\n"), std::string::npos) << written;
  EXPECT_EQ(llvm::cantFail(load(written)).link, machine.link);
}

TEST_F(MeasuredFiles, RefuseGridsThatAreTooLarge) {
  std::string sizes = "[1";
  for (int size = 2; size <= 70; ++size)
    sizes += "," + std::to_string(size);
  const std::string grid = "\"rows\": " + sizes + "], \"columns\": " + sizes + "]";
  EXPECT_EQ(messageOfMeasured("\"rows\": [1, 100], \"columns\": [8]", grid),
            ": products.matrix.float32.columns: found a grid of 4900 points, expected 4096 at most; leave "
            "sizes out");
}

/// One table cannot be that of a fast and of a slow device.
TEST_F(MeasuredFiles, RefuseTablesInCommonOfUnlikeDevices) {
  std::string changed = text();
  changed.replace(changed.rfind("1e11,"), 4, "1e10");
  EXPECT_EQ(messageOf(load(changed)),
            ": devices[1]: its figures differ from those of devices[0], but the file's tables are those of "
            "both; give each a kind with tables of its own");
  changed = text();
  changed.replace(changed.rfind("1024"), 4, "2048");
  EXPECT_EQ(llvm::cantFail(load(changed)).devices[1].memoryBytes, 2048);
}
