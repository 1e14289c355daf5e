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
static llvm::cl::opt<std::string> harmfulFile("harmful",
                                              llvm::cl::desc("Calls that once did harm, to be made first"));
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

/// By operator.
static llvm::StringMap<std::vector<Call>> readCalls(const std::string &path) {
  llvm::StringMap<std::vector<Call>> seeds;
  if (path.empty())
    return seeds;
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    llvm::errs() << "error: " << path << ": " << file.getError().message() << "\n";
    std::exit(1);
  }
  llvm::SmallVector<llvm::StringRef> lines;
  (*file)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto call = parseCall(line);
    if (!call) {
      llvm::errs() << "error: " << path << ": " << line << ": " << toString(call.takeError()) << "\n";
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

static void add(Tally &sum, Tally other) {
  for (size_t i = 0; i < size_t(Outcome::Count); ++i)
    sum.counts[i] += other.counts[i];
  llvm::append_range(sum.examples, other.examples);
}

/// Whether no call of `op` did harm.
static bool tryOperator(const std::string &op, std::vector<Call> good, llvm::ArrayRef<Call> harmful) {
  auto trial = Trial::of(op);
  if (!trial) {
    llvm::outs() << op << " " << toString(trial.takeError()) << "\n";
    return false;
  }
  std::vector<Call> found;
  if (good.empty() && tries > 0)
    good = found = trial->find(/*wanted=*/6, tries);
  Tally tally;
  for (const Call &call : harmful)
    add(tally, trial->run(call));
  if (!good.empty())
    add(tally, trial->run(good, first, first + calls));
  if (!check || !tally.isHarmless() || good.empty())
    print(op, tally, found);
  return tally.isHarmless() && !good.empty();
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
  const llvm::StringMap<std::vector<Call>> seeds = readCalls(seedsFile), harmful = readCalls(harmfulFile);
  bool isHarmless = true;
  // As they stand in the list, too.
  for (std::string line; std::getline(std::cin, line);) {
    const std::string op = llvm::StringRef(line).trim("\",").str();
    isHarmless &= tryOperator(op, seeds.lookup(op), harmful.lookup(op));
  }
  return check && !isHarmless;
}
