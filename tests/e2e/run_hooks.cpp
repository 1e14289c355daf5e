//===- run_hooks.cpp - Edits outputs of modules ---------------------------===//
//
// runHooks PLAN INPUTS.safetensors OUTPUTS.safetensors EDIT… runs one request and writes its outputs. An edit
// is EDIT=MODULE, of `zero`, `add` (adds 1), `add-later` (adds 1 to samples behind the first), `none`,
// `fail`, `resize`; for the whole batch `swap` (the first sample and the last), `whole-add`; or
// `capture=MODULE`, `stop=MODULE`, `replace=FILE`. It prints the parts that hooks got. With several processes
// all of them have the hooks; with `--coordinator` the first one alone.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <mutex>

using namespace cleave;
using namespace cleave::runtime;

static HookFunction functionOf(llvm::StringRef edit) {
  return llvm::StringSwitch<HookFunction>(edit)
      .Case("zero", [](const at::Tensor &value, const HookContext &) { return at::zeros_like(value); })
      .Cases("add", "whole-add", [](const at::Tensor &value, const HookContext &) { return value + 1; })
      .Case("add-later", [](const at::Tensor &value,
                            const HookContext &context) { return value + int64_t(context.firstSample > 0); })
      .Case("none", [](const at::Tensor &, const HookContext &) { return at::Tensor(); })
      .Case("resize", [](const at::Tensor &value, const HookContext &) { return value.flatten(); })
      .Case("fail",
            [](const at::Tensor &, const HookContext &) -> at::Tensor {
              throw std::runtime_error("it was told to");
            })
      .Case("swap",
            [](const at::Tensor &value, const HookContext &) {
              at::Tensor swapped = value.clone();
              swapped[0] = value[-1];
              swapped[-1] = value[0];
              return swapped;
            })
      .Default(nullptr);
}

static CaptureOptions parse(llvm::ArrayRef<char *> arguments) {
  CaptureOptions options;
  static std::mutex mutex;
  for (llvm::StringRef argument : arguments) {
    auto [edit, point] = argument.split('=');
    if (edit == "capture") {
      options.points.push_back(point.str());
    } else if (edit == "stop") {
      options.stopAfter = point.str();
    } else if (edit == "replace") {
      options.replacements = llvm::cantFail(readTensors(point));
    } else if (HookFunction function = functionOf(edit)) {
      const bool takesWholeBatch = edit == "swap" || edit == "whole-add";
      auto told = [function, name = edit.str()](const at::Tensor &value, const HookContext &context) {
        {
          std::lock_guard lock(mutex);
          llvm::outs() << name << " " << context.name << " " << context.firstSample << " " << context.samples
                       << "\n";
        }
        return function(value, context);
      };
      options.hooks.push_back({point.str(), told, takesWholeBatch});
    }
  }
  return options;
}

int main(int argc, char **argv) {
  llvm::ExitOnError check("error: ");
  llvm::ArrayRef<char *> arguments(argv + 1, argc - 1);
  const bool hasCoordinator = llvm::is_contained(arguments, llvm::StringRef("--coordinator"));
  if (arguments.size() < 3)
    return llvm::errs() << "usage: runHooks PLAN INPUTS OUTPUTS EDIT...\n", 2;
  c10::InferenceMode inference;
  SessionOptions sessionOptions;
  sessionOptions.launch = check(launchFromEnvironment());
  sessionOptions.hasCoordinator = hasCoordinator;
  std::unique_ptr<Session> session = check(Session::open(arguments[0], sessionOptions));
  if (hasCoordinator && session->process() != 0) {
    check(session->serve());
    return check(session->close()), 0;
  }
  const plan::Signature &signature = *session->plan().signatures[0];
  auto inputs = check(matchInputs(signature, check(readTensors(arguments[1])), arguments[1]));
  CapturedRequest captured = check(session->capture(inputs, parse(arguments.drop_front(3))));
  if (session->process() == session->outputProcess()) {
    std::vector<NamedTensor> named = captured.values;
    if (!captured.outputs.empty())
      for (auto [output, tensor] : llvm::zip(signature.outputs, captured.outputs))
        named.push_back({output->name, tensor});
    check(writeTensors(arguments[2], named));
  }
  check(session->close());
}
