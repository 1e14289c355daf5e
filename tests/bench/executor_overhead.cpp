//===- executor_overhead.cpp - What running a plan adds to its operators --===//
//
// A thousand operations on tensors of 4, or 4 x 8, elements in three ways: as C++ calls of the operators, as
// a plan, and as TorchScript's interpreter runs the same program; all on one thread in inference mode.
// `per_op` is the time of one operation. Run with the CPU to itself: build/bin/executorOverhead
// --benchmark_repetitions=5
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/PlanFile.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/executor/Executor.h"
#include "tests/unit/runtime/PlanWriter.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <sstream>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>

using namespace cleave;
using namespace cleave::runtime;

static constexpr int operations = 1000;

namespace {

/// A chain of operations, told thrice.
struct Chain {
  std::vector<int64_t> shape;
  at::Tensor (*direct)(const at::Tensor &x);
  /// Gives the slot of the result.
  uint32_t (*plan)(StageWriter &stage, uint32_t x);
  void (*graph)(std::ostream &text);
};

} // namespace

//===- Additions ----------------------------------------------------------===//

static at::Tensor addDirectly(const at::Tensor &x) {
  at::Tensor value = x;
  for (int i = 0; i < operations; ++i)
    value = at::add(value, x);
  return value;
}

static uint32_t addInPlan(StageWriter &stage, uint32_t x) {
  uint32_t value = x, one = stage.constant(integer(1));
  for (int i = 0; i < operations; ++i)
    value = stage.call("aten::add.Tensor", {value, x, one});
  return value;
}

static void addInGraph(std::ostream &text) {
  text << "graph(%0 : Tensor):\n  %one : int = prim::Constant[value=1]()\n";
  for (int i = 0; i < operations; ++i)
    text << "  %" << i + 1 << " : Tensor = aten::add(%" << i << ", %0, %one)\n";
  text << "  return (%" << operations << ")\n";
}

//===- A mixture ----------------------------------------------------------===//

static at::Tensor mixDirectly(const at::Tensor &x) {
  at::Tensor value = x;
  for (int i = 0; i < operations / 8; ++i) {
    value = at::mul(value, x);
    value = at::transpose(value, 0, 1);
    value = at::reshape(value, {4, 8});
    value = at::relu(value);
    value = at::layer_norm(value, {8}, {}, {}, 1e-5, false);
    value = at::slice(value, 0, 0, 4, 1);
    value = at::softmax(value, -1, std::nullopt);
    value = at::add(value, x);
  }
  return value;
}

static uint32_t mixInPlan(StageWriter &stage, uint32_t x) {
  const uint32_t zero = stage.constant(integer(0)), one = stage.constant(integer(1)),
                 four = stage.constant(integer(4)), last = stage.constant(integer(-1)),
                 nothing = stage.constant(none()), no = stage.constant([] {
                   plan::Constant constant = integer(0);
                   constant.kind = plan::ConstantKind::Bool;
                   return constant;
                 }()),
                 epsilon = stage.constant(real(1e-5)), shape = stage.constant(integers({4, 8})),
                 eight = stage.constant(integers({8}));
  uint32_t value = x;
  for (int i = 0; i < operations / 8; ++i) {
    value = stage.call("aten::mul.Tensor", {value, x});
    value = stage.call("aten::transpose.int", {value, zero, one});
    value = stage.call("aten::reshape", {value, shape});
    value = stage.call("aten::relu", {value});
    value = stage.call("aten::layer_norm", {value, eight, nothing, nothing, epsilon, no});
    value = stage.call("aten::slice.Tensor", {value, zero, zero, four, one});
    value = stage.call("aten::softmax.int", {value, last, nothing});
    value = stage.call("aten::add.Tensor", {value, x, one});
  }
  return value;
}

static void mixInGraph(std::ostream &text) {
  text << R"(graph(%0 : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %last : int = prim::Constant[value=-1]()
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %epsilon : float = prim::Constant[value=1.0e-05]()
  %shape : int[] = prim::Constant[value=[4, 8]]()
  %eight : int[] = prim::Constant[value=[8]]()
)";
  const char *calls[] = {"mul(%{}, %0)",
                         "transpose(%{}, %zero, %one)",
                         "reshape(%{}, %shape)",
                         "relu(%{})",
                         "layer_norm(%{}, %eight, %none, %none, %epsilon, %no)",
                         "slice(%{}, %zero, %zero, %four, %one)",
                         "softmax(%{}, %last, %none)",
                         "add(%{}, %0, %one)"};
  for (int i = 0; i < operations; ++i) {
    std::string call = calls[i % 8];
    call.replace(call.find("{}"), 2, std::to_string(i));
    text << "  %" << i + 1 << " : Tensor = aten::" << call << "\n";
  }
  text << "  return (%" << operations << ")\n";
}

static const Chain additions{{4}, addDirectly, addInPlan, addInGraph};
static const Chain mixture{{4, 8}, mixDirectly, mixInPlan, mixInGraph};

//===- The three ways -----------------------------------------------------===//

static void reportPerOperation(benchmark::State &state) {
  state.counters["per_op"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate |
                                                                benchmark::Counter::kInvert);
}

static void runDirectly(benchmark::State &state, const Chain &chain) {
  // The same memory as the plan's, so that the difference is the executor's.
  MemoryAccountRef account(new MemoryAccount("bench"));
  ScopedAccount counted(*account);
  const at::Tensor x = at::ones(chain.shape);
  for (auto _ : state)
    benchmark::DoNotOptimize(chain.direct(x));
  reportPerOperation(state);
}

/// As the worker thread of a device runs it, its arena and account included.
static void runPlan(benchmark::State &state, const Chain &chain) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("cleave-bench", folder))
    return state.SkipWithError("no temporary folder");
  PlanWriter writer({0});
  writer.input("x", tensorType(plan::DType::Float, chain.shape));
  StageWriter &stage = writer.stage(0);
  stage.output(chain.plan(stage, stage.input(0)));
  writer.output("y", 0, 0);
  const std::string directory = (folder + "/a.plan").str();
  writer.write(directory);
  auto loaded = llvm::cantFail(plan::readPlan(directory));
  Operators operators(*loaded.plan);
  WeightStore weights = llvm::cantFail(WeightStore::load(
      *loaded.plan, llvm::cantFail(plan::openShards(*loaded.plan, directory, {0u})).at(0), 0, c10::kCPU));
  auto executor = llvm::cantFail(
      Executor::load(*loaded.plan, *loaded.plan->programs[0], weights, operators, c10::kCPU, false));
  llvm::sys::fs::remove_directories(folder);

  MemoryAccountRef account(new MemoryAccount("bench"));
  ScopedAccount counted(*account);
  const at::Tensor x = at::ones(chain.shape);
  const std::atomic<bool> cancelled{false};
  std::vector<c10::IValue> outputs;
  for (auto _ : state) {
    executor->setInput(0, x);
    executor->run({{}, cancelled}, outputs);
  }
  reportPerOperation(state);
}

static void runTorchScript(benchmark::State &state, const Chain &chain) {
  std::ostringstream text;
  chain.graph(text);
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text.str(), graph.get());
  torch::jit::Code code(graph, "bench");
  const at::Tensor x = at::ones(chain.shape);
  for (auto _ : state) {
    torch::jit::Stack stack{x};
    torch::jit::InterpreterState(code).run(stack);
    benchmark::DoNotOptimize(stack);
  }
  reportPerOperation(state);
}

int main(int argc, char **argv) {
  at::set_num_threads(1);
  c10::InferenceMode inference;
  for (auto [name, chain] : {std::pair("add", &additions), std::pair("mix", &mixture)}) {
    const std::string prefix = std::string(name) + "/";
    benchmark::RegisterBenchmark((prefix + "direct").c_str(), runDirectly, *chain);
    benchmark::RegisterBenchmark((prefix + "plan").c_str(), runPlan, *chain);
    benchmark::RegisterBenchmark((prefix + "torchscript").c_str(), runTorchScript, *chain);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
