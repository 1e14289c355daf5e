//===- RunSandbox.cpp - Sandbox of a running plan -------------------------===//
#include "tools/cleave/RunSandbox.h"
#include "runtime/operators/Operators.h"
#include "sandbox/Sandbox.h"
#include "tools/cleave/Commands.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;

Expected<RunSandbox> RunSandbox::prepare(llvm::StringRef choice, const SandboxFiles &files,
                                         const runtime::SessionOptions &session) {
  RunSandbox made;
  made.isRequired = choice == "on";
  const bool hasGpus = llvm::any_of(session.devices, isGpu);
  if (hasGpus && made.isRequired)
    return llvm::createStringError(
        "--sandbox on: cannot be had with GPUs, whose drivers need more than a sandbox "
        "gives; give --devices cpu:0, or --sandbox off");
  if (hasGpus && choice == "auto")
    made.missing = "note: no sandbox with GPUs: run plans of people whom you trust, or in a container\n";
  made.isWanted = choice != "off" && !hasGpus;
  if (!made.isWanted)
    return made;
  if (session.launch)
    sandbox::blockIoUring();
  made.files = files.read;
  made.folders = {files.plan};
  made.libraries = session.libraries;
  plan::OutputPaths outputs;
  for (const std::string &file : files.written)
    if (!file.empty())
      outputs.files.push_back(file);
  if (outputs.empty())
    return made;
  if (Error error = plan::OutputBroker::create(std::move(outputs)).moveInto(made.broker))
    return error;
  if (Error error = made.broker->startProcess())
    return error;
  made.broker->use();
  return made;
}

Error RunSandbox::enter(const std::optional<runtime::Launch> &launch) {
  if (Error error = restrictAccess())
    return error;
  if (!launch || launch->rank == 0)
    llvm::errs() << missing;
  return Error::success();
}

Error RunSandbox::restrictAccess() {
  if (!isWanted)
    return Error::success();
  for (const std::string &library : libraries)
    if (Error error = runtime::loadLibrary(library))
      return error;
  const sandbox::Protection &found = sandbox::enter({files, folders, ""});
  if (found.isWhole())
    return Error::success();
  if (isRequired)
    return llvm::createStringError("--sandbox on: this system has no complete sandbox (" + found.problem +
                                   "); run plans that you trust with --sandbox off");
  missing = "note: no complete sandbox on this system (" + found.problem +
            "): only the list of allowed operators protects your files from the plan\n";
  return Error::success();
}

} // namespace cleave
