//===- GpuTest.cpp - CUDA devices, and machines without -------------------===//
#include "codegen/plan/PlanFile.h"
#include "runtime/base/Values.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/device/PluginLoader.h"
#include "runtime/executor/Executor.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <atomic>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using plan::DType;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// What needs no GPU.
class DevicePluginTest : public PlanTest {};

TEST_F(DevicePluginTest, SaysWhereThePluginIsMissing) {
  EXPECT_EQ(failureOf(loadCudaPlugin({path("bin"), path("lib")})),
            "found no CUDA plugin, expected cleave_cuda.so in " + path("bin") + " or " + path("lib") +
                ", as a build makes it where CUDA's headers are");
}

TEST_F(DevicePluginTest, SaysWhyThePluginCannotBeLoaded) {
  std::ofstream(path("cleave_cuda.so")) << "no library";
  EXPECT_THAT(
      failureOf(loadCudaPlugin({path("bin"), path("")})),
      AllOf(StartsWith("cannot load the CUDA plugin: "), HasSubstr("cleave_cuda.so: file too short")));
}

TEST_F(DevicePluginTest, RefusesPluginsOfOtherVersions) {
  Dl_info torch;
  ASSERT_TRUE(dladdr(reinterpret_cast<void *>(&at::show_config), &torch));
  ASSERT_FALSE(llvm::sys::fs::create_link(torch.dli_fname, path("cleave_cuda.so")));
  EXPECT_THAT(failureOf(loadCudaPlugin({path("")})), HasSubstr("is of another version of Cleave"));
}

TEST_F(DevicePluginTest, SaysWhyAMachineHasNoGpu) {
  TwoLayers model;
  llvm::cantFail(open(model.writer)->run({at::ones({2, 8})}));
  SessionOptions options;
  options.devices = {"cpu:0", "cuda:1"};
  std::string failure = failureOf(Session::open(path("a.plan"), options));
  if (failure.empty())
    GTEST_SKIP() << "this machine has two GPUs";
  EXPECT_THAT(failure, AllOf(StartsWith("device cuda:1: found "), EndsWith("; use cpu:1")));
  // libtorch has not made up its mind about CUDA while it ran on the CPU.
  if (auto plugin = loadCudaPlugin(pluginFolders()))
    EXPECT_TRUE(at::Context::hasCUDART());
  else
    llvm::consumeError(plugin.takeError());
}

TEST_F(DevicePluginTest, MovesTensorsButScalars) {
  // A device without data, which every machine has.
  const c10::Device device(c10::kMeta);
  EXPECT_TRUE(movedTo(device, at::ones({1})).toTensor().is_meta());
  EXPECT_TRUE(movedTo(device, at::scalar_tensor(1)).toTensor().is_cpu());
  EXPECT_TRUE(movedTo(device, c10::List<at::Tensor>({at::ones({1})})).toTensorVector()[0].is_meta());
  at::Tensor there = at::ones({2});
  EXPECT_TRUE(movedTo(c10::kCPU, there).toTensor().is_same(there));
  EXPECT_EQ(movedTo(device, c10::List<int64_t>({3})).toIntVector(), std::vector<int64_t>{3});
}

/// x + w + ones(4) + zeros(4), whose ones are made on the CPU by name and whose zeros on no device by name.
static void writeFactories(PlanWriter &writer) {
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  plan::Constant cpu = text("cpu");
  cpu.kind = plan::ConstantKind::Device;
  uint32_t size = stage.constant(integers({4})), nothing = stage.constant(none()),
           one = stage.constant(integer(1)), device = stage.constant(cpu);
  uint32_t sum = stage.call("aten::add.Tensor", {stage.input(0), stage.weight("w", at::ones({4})), one});
  sum = stage.call("aten::add.Tensor",
                   {sum, stage.call("aten::ones", {size, nothing, nothing, device, nothing}), one});
  sum = stage.call("aten::add.Tensor",
                   {sum, stage.call("aten::zeros", {size, nothing, nothing, nothing, nothing}), one});
  stage.output(sum);
  writer.output("y", 0, 0);
}

TEST_F(DevicePluginTest, ProgramsMakeTheirTensorsWhereTheyRun) {
  PlanWriter writer({0});
  writeFactories(writer);
  writer.write(path("a.plan"));
  const c10::Device device(c10::kMeta);
  Operators operators(*writer.plan);
  auto weights = llvm::cantFail(WeightStore::load(
      *writer.plan, llvm::cantFail(plan::openShards(*writer.plan, path("a.plan"), {0u})).at(0), 0, device));
  auto executor = llvm::cantFail(
      Executor::load(*writer.plan, *writer.plan->programs[0], weights, operators, device, false));
  executor->setInput(0, at::ones({4}));
  std::vector<c10::IValue> outputs;
  std::atomic<bool> cancelled{false};
  // Operators refuse operands of two devices, so what comes out has been there all along.
  executor->run({{}, cancelled}, outputs);
  EXPECT_TRUE(outputs[0].toTensor().is_meta());
}

/// `y = conv2d(x, w)` as a trace has it, with TF32 where the machine of the trace has it.
static void writeConvolution(PlanWriter &writer) {
  writer.input("x", tensorType(DType::Float, {2, 64, 16, 16}));
  StageWriter &stage = writer.stage(0);
  auto flag = [&](bool isSet) {
    plan::Constant constant = integer(isSet);
    constant.kind = plan::ConstantKind::Bool;
    return stage.constant(constant);
  };
  const uint32_t ones = stage.constant(integers({1, 1})), zeros = stage.constant(integers({0, 0})),
                 no = flag(false), yes = flag(true);
  stage.output(stage.call("aten::_convolution", {stage.input(0), stage.weight("w", at::randn({64, 64, 3, 3})),
                                                 stage.constant(none()), ones, zeros, ones, no, zeros,
                                                 stage.constant(integer(1)), no, no, yes, yes}));
  writer.output("y", 0, 0);
}

TEST_F(DevicePluginTest, TheSessionChoosesThePrecisionOfTracedConvolutions) {
  PlanWriter writer({0});
  writeConvolution(writer);
  writer.write(path("a.plan"));
  Operators operators(*writer.plan);
  for (auto [device, isReplaced] : {std::pair(c10::kCPU, false), std::pair(c10::kMeta, true)}) {
    auto program =
        llvm::cantFail(LoadedProgram::load(*writer.plan, *writer.plan->programs[0], operators, device));
    EXPECT_EQ(program->main().instructions[0].operands.back().slot == program->tf32Slot(), isReplaced);
  }
}

/// What needs one.
class GpuTest : public PlanTest {
protected:
  void SetUp() override {
    std::string missing = failureOf(resolveDevices({"cuda:0"}, 1));
    if (!missing.empty())
      GTEST_SKIP() << missing;
  }

  /// Runs two layers over `devices` and on the CPU.
  void expectSameAsOnCpu(std::vector<std::string> devices, uint32_t microbatches = 1) {
    TwoLayers model;
    if (microbatches > 1)
      model.writer.splitBatch(microbatches);
    SessionOptions options;
    options.devices = std::move(devices);
    auto session = open(model.writer, options);
    std::vector<at::Tensor> inputs;
    std::vector<std::unique_ptr<Session::Pending>> pending;
    for (int64_t i = 0; i < 50; ++i) {
      inputs.push_back(at::randn({1 + i % 7, 8}));
      pending.push_back(llvm::cantFail(session->start({inputs.back()})));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      at::Tensor output = llvm::cantFail(pending[i]->wait())[0];
      ASSERT_TRUE(output.is_cpu());
      EXPECT_LE(relativeError(output, model.expected(inputs[i])), 2e-6);
    }
  }
};

TEST_F(GpuTest, TwoStagesOnOneGpuGiveWhatTheCpuGives) { expectSameAsOnCpu({"cuda:0", "cuda:0"}); }
TEST_F(GpuTest, MicrobatchesGoThroughTwoStagesOnOneGpu) { expectSameAsOnCpu({"cuda:0", "cuda:0"}, 3); }
TEST_F(GpuTest, AGpuTakesOverFromTheCpu) { expectSameAsOnCpu({"cpu:0", "cuda:0"}); }
TEST_F(GpuTest, TheCpuTakesOverFromAGpu) { expectSameAsOnCpu({"cuda:0", "cpu:0"}); }

TEST_F(GpuTest, GivesOutputsWhereTheyAreWanted) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cuda:0", "cpu:0"};
  options.outputDevice = "cuda:0";
  at::Tensor input = at::randn({4, 8});
  at::Tensor output = llvm::cantFail(open(model.writer, options)->run({input}))[0];
  ASSERT_TRUE(output.is_cuda());
  EXPECT_LE(relativeError(output, model.expected(input)), 2e-6);
}

TEST_F(GpuTest, MakesTensorsOnTheGpu) {
  PlanWriter writer({0});
  writeFactories(writer);
  SessionOptions options;
  options.devices = {"cuda:0"};
  EXPECT_TRUE(at::equal(llvm::cantFail(open(writer, options)->run({at::ones({4})}))[0], at::full({4}, 3.f)));
}

TEST_F(GpuTest, GraphsGiveTheBitsOfEagerRuns) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cuda:0", "cuda:0"};
  auto eager = open(model.writer, options);
  options.cudaGraphs = true;
  auto graphs = llvm::cantFail(Session::open(path("a.plan"), options));
  // Captured in the third run of each size.
  for (int64_t i = 0; i < 20; ++i) {
    const at::Tensor x = at::randn({1 + i % 2, 8});
    EXPECT_TRUE(at::equal(llvm::cantFail(graphs->run({x}))[0], llvm::cantFail(eager->run({x}))[0])) << i;
  }
  for (const DeviceStatistics &device : graphs->statistics())
    EXPECT_THAT(device.eager, testing::IsEmpty());
}

TEST_F(GpuTest, ProgramsThatCannotBeGraphsRunAsEver) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call("aten::nonzero", {stage.input(0)}));
  writer.output("y", 0, 0);
  SessionOptions options;
  options.devices = {"cuda:0"};
  options.cudaGraphs = true;
  auto session = open(writer, options);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(llvm::cantFail(session->run({at::ones({4})}))[0].size(0), 4);
  EXPECT_THAT(session->statistics()[0].eager,
              testing::ElementsAre("stage 0: what it calls depends on contents of tensors (aten::nonzero)"));
}

/// `y = x[x > 0]`, which nobody knows to be in the way of a capture before it fails.
static void writeMasked(PlanWriter &writer) {
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  const uint32_t x = stage.input(0), mask = stage.call("aten::gt.Scalar", {x, stage.constant(integer(0))});
  stage.output(stage.call("aten::index.Tensor", {x, stage.list("Tensor?", {mask})}));
  writer.output("y", 0, 0);
}

TEST_F(GpuTest, ACaptureThatFailsLeavesTheGpuAsItWas) {
  PlanWriter masked({0});
  writeMasked(masked);
  SessionOptions options;
  options.devices = {"cuda:0"};
  options.cudaGraphs = true;
  auto session = open(masked, options);
  const at::Tensor x = at::tensor({1.f, -1.f, 2.f, 3.f});
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], x.index({x > 0})));
  EXPECT_THAT(session->statistics()[0].eager,
              testing::ElementsAre(StartsWith("stage 0: capturing it failed: ")));
  const auto there = at::TensorOptions().device(at::kCUDA);
  EXPECT_EQ(at::rand({8}, there).cpu().numel(), 8);
  EXPECT_TRUE(at::equal(x.pin_memory().to(at::kCUDA, /*non_blocking=*/true).cpu(), x));
  llvm::sys::fs::remove_directories(path("a.plan"));
  TwoLayers model;
  options.devices = {"cuda:0", "cuda:0"};
  auto other = open(model.writer, options);
  const at::Tensor input = wholeNumbers({4, 8});
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(llvm::cantFail(other->run({input}))[0], model.expected(input)));
  for (const DeviceStatistics &device : other->statistics())
    EXPECT_THAT(device.eager, testing::IsEmpty());
}

/// Captures graphs of eight sizes while another thread does `work` again and again.
class GpuCaptureTest : public GpuTest {
protected:
  void captureBeside(const std::function<void(Session &)> &work) {
    SessionOptions options;
    options.devices = {"cuda:0", "cuda:0"};
    options.cudaGraphs = true;
    auto session = open(model.writer, options);
    std::atomic<bool> isOver{false};
    std::thread working([&] {
      while (!isOver)
        work(*session);
    });
    for (int64_t batch = 1; batch <= 8; ++batch)
      for (int i = 0; i < 4; ++i)
        expectRuns(*session, wholeNumbers({batch, 8}));
    isOver = true;
    working.join();
    for (const DeviceStatistics &device : session->statistics())
      EXPECT_THAT(device.eager, testing::IsEmpty());
  }
  void expectRuns(Session &session, const at::Tensor &x) {
    EXPECT_TRUE(at::equal(llvm::cantFail(session.run({x}))[0], model.expected(x)));
  }

  TwoLayers model;
};

TEST_F(GpuCaptureTest, RandomNumbersAreDrawnMeanwhile) {
  captureBeside(
      [](Session &) { EXPECT_EQ(at::rand({8}, at::TensorOptions().device(at::kCUDA)).numel(), 8); });
}

TEST_F(GpuCaptureTest, OutputsAreFreedMeanwhile) {
  const at::Tensor x = wholeNumbers({1, 8});
  captureBeside([&](Session &session) { expectRuns(session, x); });
}

TEST_F(GpuTest, ManySessionsHaveStreamsOfTheirOwn) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cuda:0", "cuda:0"};
  auto first = open(model.writer, options);
  const at::Tensor x = wholeNumbers({4, 8});
  for (int i = 0; i < 20; ++i) {
    auto session = llvm::cantFail(Session::open(path("a.plan"), options));
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], model.expected(x)));
  }
  EXPECT_TRUE(at::equal(llvm::cantFail(first->run({x}))[0], model.expected(x)));
}

TEST_F(GpuTest, AutocastComputesInBfloat16) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cuda:0", "cuda:0"};
  options.autocast = at::kBFloat16;
  const at::Tensor x = at::randn({4, 8}), y = llvm::cantFail(open(model.writer, options)->run({x}))[0];
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LE(relativeError(y.to(at::kFloat), model.expected(x)), 0.05);
}

TEST_F(GpuTest, Tf32IsOffUnlessItIsAskedFor) {
  TwoLayers model(512, 512);
  SessionOptions options;
  options.devices = {"cuda:0", "cuda:0"};
  options.tf32 = true;
  const at::Tensor x = at::randn({64, 512}), expected = model.expected(x);
  const at::Tensor rough = llvm::cantFail(open(model.writer, options)->run({x}))[0];
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS() && at::globalContext().allowTF32CuDNN());
  EXPECT_GE(relativeError(rough, expected), 2e-5);
  EXPECT_LE(relativeError(rough, expected), 5e-3);
  options.tf32 = false;
  auto session = llvm::cantFail(Session::open(path("a.plan"), options));
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS() || at::globalContext().allowTF32CuDNN());
  EXPECT_LE(relativeError(llvm::cantFail(session->run({x}))[0], expected), 5e-6);
}

TEST_F(GpuTest, Tf32OfTracedConvolutionsIsOffUnlessItIsAskedFor) {
  PlanWriter writer({0});
  writeConvolution(writer);
  const at::Tensor x = at::randn({2, 64, 16, 16}), expected = llvm::cantFail(open(writer)->run({x}))[0];
  for (bool tf32 : {true, false}) {
    SessionOptions options;
    options.devices = {"cuda:0"};
    options.tf32 = tf32;
    auto session = llvm::cantFail(Session::open(path("a.plan"), options));
    const double error = relativeError(llvm::cantFail(session->run({x}))[0], expected);
    EXPECT_LE(error, tf32 ? 5e-3 : 5e-6);
    EXPECT_EQ(error >= 2e-5, tf32) << error;
  }
}

TEST_F(GpuTest, TakesExpandedTensors) {
  const c10::Device gpu(c10::kCUDA, 0);
  const at::Tensor x = at::arange(3, at::kFloat).unsqueeze(1).expand({3, 4});
  EXPECT_TRUE(at::equal(movedTo(gpu, x).toTensor().cpu(), x));
  EXPECT_TRUE(at::equal(movedTo(gpu, x.t()).toTensor().cpu(), x.t()));
}

TEST_F(GpuTest, RangesDoNotChangeWhatIsTraced) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cuda:0", "cuda:0"};
  options.trace = true;
  auto session = open(model.writer, options);
  const at::Tensor x = at::randn({4, 8});
  EXPECT_LE(relativeError(llvm::cantFail(session->run({x}))[0], model.expected(x)), 2e-6);
  EXPECT_EQ(session->takeTrace().size(), 4u);
}

/// What needs two.
class TwoGpusTest : public GpuTest {
protected:
  void SetUp() override {
    std::string missing = failureOf(resolveDevices({"cuda:0", "cuda:1"}, 2));
    if (!missing.empty())
      GTEST_SKIP() << missing;
  }
};

TEST_F(TwoGpusTest, AGpuTakesOverFromAnother) { expectSameAsOnCpu({"cuda:0", "cuda:1"}); }
TEST_F(TwoGpusTest, MicrobatchesGoFromOneGpuToTheOther) { expectSameAsOnCpu({"cuda:1", "cuda:0"}, 3); }

TEST_F(GpuTest, ReportsThePeakOfTheGpu) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {1 << 20}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call("aten::neg", {stage.input(0)}));
  writer.output("y", 0, 0);
  SessionOptions options;
  options.devices = {"cuda:0"};
  auto session = open(writer, options);
  llvm::cantFail(session->run({at::ones({1 << 20})}));
  // The input, which is brought there, and the output; what libtorch keeps for itself counts too.
  EXPECT_GE(session->statistics()[0].peakBytes, 2 << 22);
}

TEST_F(GpuTest, RefusesIndicesBeyondTheGpus) {
  EXPECT_THAT(failureOf(resolveDevices({"cuda:1000"}, 1)),
              AllOf(StartsWith("device cuda:1000: found "),
                    EndsWith(" GPUs, expected more than 1000; use cpu:1000")));
}

} // namespace cleave::runtime
