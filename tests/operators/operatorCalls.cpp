//===- operatorCalls.cpp - What operators do with hostile arguments -------===//
//
//   operatorCalls --names                           prints the operators that plans could call
//   operatorCalls --seeds FILE --calls N < NAMES    makes N hostile calls of each, and prints a line an
//   operator operatorCalls --call TEXT                       makes one call
//
//===----------------------------------------------------------------------===//
#include "tests/operators/Trial.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <iostream>
#include <set>
#include <torch/csrc/jit/runtime/operator.h>

using namespace cleave::operators;

static llvm::cl::opt<bool> names("names", llvm::cl::desc("Print the operators that plans could call"));
static llvm::cl::opt<std::string> seedsFile("seeds", llvm::cl::desc("Calls that give a result"));
static llvm::cl::opt<std::string> oneCall("call", llvm::cl::desc("Make this call"));
static llvm::cl::opt<bool> check("check",
                                 llvm::cl::desc("Print harmful calls alone, and fail where there are some"));
static llvm::cl::opt<uint64_t> first("first", llvm::cl::desc("The first call's number"), llvm::cl::init(0));
static llvm::cl::opt<uint64_t> calls("calls", llvm::cl::desc("Hostile calls an operator"),
                                     llvm::cl::init(20));
static llvm::cl::opt<uint64_t> tries("tries", llvm::cl::desc("Random calls to find good ones"),
                                     llvm::cl::init(0));

namespace {
class NoWarnings : public c10::WarningHandler {
  void process(const c10::Warning &) override {}
};
} // namespace

/// What libtorch does once, and opens files for, before system calls trap.
static void warmUp() {
  at::manual_seed(0);
  at::conv2d(at::ones({1, 1, 8, 8}), at::ones({1, 1, 3, 3})).matmul(at::ones({6, 6}));
  try {
    TORCH_CHECK(false, "unwinding");
  } catch (const c10::Error &) {
  }
}

static void printNames() {
  std::set<std::string> found;
  for (const auto &op : torch::jit::getAllOperators()) {
    std::string overload = op->schema().overload_name();
    found.insert(op->schema().name() + (overload.empty() ? "" : "." + overload));
  }
  for (const std::string &name : found)
    if (auto trial = Trial::of(name))
      llvm::outs() << name << "\n";
    else
      llvm::consumeError(trial.takeError());
}

static llvm::StringMap<std::vector<Call>> readSeeds() {
  llvm::StringMap<std::vector<Call>> seeds;
  auto file = llvm::MemoryBuffer::getFile(seedsFile);
  if (!file) {
    llvm::errs() << "error: " << seedsFile << ": " << file.getError().message() << "\n";
    std::exit(1);
  }
  llvm::SmallVector<llvm::StringRef> lines;
  (*file)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto call = parseCall(line);
    if (!call) {
      llvm::errs() << "error: " << seedsFile << ": " << line << ": " << toString(call.takeError()) << "\n";
      std::exit(1);
    }
    seeds[call->op].push_back(std::move(*call));
  }
  return seeds;
}

/// `aten::relu results=812 errors=188 …`, then a line `! OUTCOME CALL` an example, and `+ CALL` for what was
/// found.
static void print(const std::string &op, Tally tally, llvm::ArrayRef<Call> found) {
  llvm::outs() << op;
  for (size_t i = 0; i < size_t(Outcome::Count); ++i)
    llvm::outs() << " " << nameOf(Outcome(i)) << "=" << tally.counts[i];
  llvm::outs() << "\n";
  for (const std::string &example : tally.examples)
    llvm::outs() << "! " << example << "\n";
  for (const Call &call : found)
    llvm::outs() << "+ " << toText(call) << "\n";
  llvm::outs().flush();
}

/// Whether no call of `op` did harm.
static bool checkOperator(const std::string &op, const std::vector<Call> &good) {
  auto trial = Trial::of(op);
  if (!trial || good.empty()) {
    llvm::errs() << "error: "
                 << (trial ? op + ": there is no call to begin with" : toString(trial.takeError())) << "\n";
    return false;
  }
  Tally tally = trial->run(good, first, first + calls);
  if (!tally.isHarmless())
    print(op, tally, {});
  return tally.isHarmless();
}

static void tryOperator(const std::string &op, std::vector<Call> good) {
  auto trial = Trial::of(op);
  if (!trial) {
    llvm::outs() << op << " " << toString(trial.takeError()) << "\n";
    return;
  }
  std::vector<Call> found;
  if (good.empty() && tries > 0)
    good = found = trial->find(/*wanted=*/6, tries);
  print(op, good.empty() ? Tally() : trial->run(good, first, first + calls), found);
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv, "Calls operators of libtorch with hostile arguments\n");
  NoWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);
  // Making a trace of the stack takes longer than most calls.
  c10::SetStackTraceFetcher([] { return std::string(); });
  at::set_num_threads(1);
  warmUp();
  if (names) {
    printNames();
    return 0;
  }
  if (!oneCall.empty()) {
    auto call = parseCall(oneCall);
    if (!call) {
      llvm::errs() << "error: " << toString(call.takeError()) << "\n";
      return 1;
    }
    auto trial = Trial::of(call->op);
    if (!trial) {
      llvm::errs() << "error: " << toString(trial.takeError()) << "\n";
      return 1;
    }
    Tally tally = trial->run(*call);
    print(call->op, tally, {});
    llvm::outs() << tally.message << "\n";
    return 0;
  }
  llvm::StringMap<std::vector<Call>> seeds = readSeeds();
  bool isHarmless = true;
  for (std::string line; std::getline(std::cin, line);) {
    // As they stand in the list, too.
    const std::string op = llvm::StringRef(line).trim("\",").str();
    if (check)
      isHarmless &= checkOperator(op, seeds.lookup(op));
    else
      tryOperator(op, seeds.lookup(op));
  }
  return !isHarmless;
}
