//===- main.cpp - The `cleave` program ------------------------------------===//
#include "tools/cleave/Commands.h"
#include "tools/driver/UsageError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>

static constexpr int kFailed = 1, kWrongUsage = 2;

/// `error: compile: --devices: value 0 not in range 1 to 65536; see cleave compile --help`.
static std::string describeWrongUsage(const CLI::App *app, const CLI::Error &error) {
  std::string command, message = error.what();
  for (const CLI::App *chosen : app->get_subcommands())
    command = chosen->get_name();
  if (command.empty() && app->remaining_size() > 0)
    message = "there is no subcommand " + app->remaining().front();
  // CLI11 writes sentences.
  message[0] = llvm::toLower(message[0]);
  return "error: " + (command.empty() ? "" : command + ": ") + message + "; see cleave " +
         (command.empty() ? "" : command + " ") + "--help\n";
}

CLI::Validator cleave::deviceName() {
  auto check = [](const std::string &text) -> std::string {
    llvm::StringRef name = text;
    uint16_t index;
    if ((name.consume_front("cpu:") || name.consume_front("cuda:")) && !name.getAsInteger(10, index))
      return "";
    return "found device \"" + text + "\", expected cpu:N or cuda:N";
  };
  return CLI::Validator(check, "");
}

int main(int argc, char **argv) {
  // At a limit on file sizes, write() is to fail as it does on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Splits PyTorch models over devices and runs them.", "cleave");
  app.set_version_flag("--version", "cleave " CLEAVE_VERSION);
  app.require_subcommand(1);
  app.failure_message(describeWrongUsage);
  cleave::Action chosen;
  cleave::addCompileCommand(app, chosen);
  cleave::addRunCommand(app, chosen);
  cleave::addVerifyCommand(app, chosen);
  cleave::addInspectCommand(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // --help and --version come here as well, with the code 0.
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  llvm::Error error = chosen();
  if (error.isA<cleave::UsageError>()) {
    std::string command = app.get_subcommands().front()->get_name();
    llvm::errs() << "error: " << command << ": " << toString(std::move(error)) << "; see cleave " << command
                 << " --help\n";
    return kWrongUsage;
  }
  if (error) {
    llvm::errs() << "error: " << toString(std::move(error)) << "\n";
    return kFailed;
  }
  return 0;
}
