//===- Supervised.cpp - Commands that run supervised ----------------------===//
#include "tools/cleave/process/Supervised.h"
#include "tools/cleave/text/Numbers.h"

namespace cleave {

Confinement confine(const std::string &file, const SupervisedOptions &how) {
  Confinement confinement;
  confinement.file = file;
  confinement.limits = how.limits;
  confinement.files = {file};
  confinement.unsandboxed = how.trust;
  confinement.drawsBar = !how.quiet;
  return confinement;
}

bool needsListedOperators(const SupervisedOptions &how) {
  return how.isModel && !how.trust && !sandbox::current().isWhole();
}

std::string noteProtection(const SupervisedOptions &how) {
  if (!needsListedOperators(how))
    return "";
  const sandbox::Protection &protection = sandbox::current();
  return "note: the model could call listed operators only, since it had no complete sandbox (" +
         (protection.problem.empty() ? "there is none with GPUs" : protection.problem) + ")\n";
}

void addSupervisedOptions(CLI::App *command, SupervisedOptions &options) {
  command->add_flag("--trust", options.trust,
                    "The model is your own: let it open files, start processes and use the network");
  command
      ->add_option("--memory-limit", options.limits.memoryBytes,
                   "Bytes of memory it may take, as 8GB; 0: any (9/10 of this machine's)")
      ->transform(CLI::Validator([](std::string &text) { return readSize(text, /*least=*/0); }, ""))
      ->type_name("SIZE");
  command->add_option("--time-limit", options.limits.seconds, "Seconds it may take in all; 0: any")
      ->transform(wholeNumber(0, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--json", options.json, "Report as one JSON object");
  command->add_flag("--quiet", options.quiet, "Say nothing but errors, and what --json reports");
}

} // namespace cleave
