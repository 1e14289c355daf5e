//===- main.cpp - The `cleave` program ------------------------------------===//
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "ir/NearestName.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/DeviceWorker.h"
#include "sandbox/Sandbox.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/process/Startup.h"
#include "tools/cleave/text/Output.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <sstream>
#include <unistd.h>

using cleave::didYouMean;

static constexpr int kWrongUsage = 2;
/// Longest error message; names in it may have any length.
static constexpr size_t kLongestMessage = 8192;

/// `there is no --ouput; did you mean --output?`. CLI11 would first report a missing option, which was given
/// but misspelt.
static std::string describeUnexpected(const CLI::App &command) {
  const std::string found = command.remaining().front();
  if (found[0] != '-')
    return found + ": one more argument than it takes";
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  return "there is no option " + found + didYouMean(llvm::StringRef(found).split('=').first, names);
}

/// `error: compile: --devices: found "0", expected a whole number …; see cleave compile --help`.
static std::string describeWrongUsage(const CLI::App *app, const CLI::Error &error) {
  std::string command, message = error.what();
  for (const CLI::App *chosen : app->get_subcommands()) {
    command = chosen->get_name();
    if (chosen->remaining_size() > 0)
      message = describeUnexpected(*chosen);
  }
  if (command.empty() && app->remaining_size() > 0) {
    std::vector<std::string> names;
    for (const CLI::App *known : app->get_subcommands({}))
      names.push_back(known->get_name());
    message =
        "there is no subcommand " + app->remaining().front() + didYouMean(app->remaining().front(), names);
  }
  // CLI11 writes sentences.
  message[0] = llvm::toLower(message[0]);
  return "error: " + (command.empty() ? "" : command + ": ") +
         cleave::plan::printable(message, kLongestMessage) + "; see cleave " +
         (command.empty() ? "" : command + " ") + "--help\n";
}

/// Rejects values of flags. CLI11 reads any number as yes, and an empty text too, which a shell makes of an
/// unset variable.
static void checkFlags(const CLI::App &command, llvm::ArrayRef<const char *> arguments) {
  for (llvm::StringRef argument :
       llvm::make_range(arguments.begin(), llvm::find(arguments, llvm::StringRef("--")))) {
    auto [name, value] = argument.split('=');
    const CLI::Option *option =
        name.starts_with("--") && name != argument ? command.get_option_no_throw(name.str()) : nullptr;
    if (option && option->get_items_expected_max() == 0)
      throw CLI::ArgumentMismatch(name.str() + ": found the value \"" + value.str() + "\", expected none");
  }
}

static std::string checkDeviceNames(const std::string &text) {
  for (llvm::StringRef name : llvm::split(text, ',')) {
    if (name.empty())
      return "found \"" + text + "\", expected names of devices with a comma between any two: cpu:0,cuda:0";
    if (auto error = cleave::runtime::checkDeviceName(name))
      return toString(std::move(error));
  }
  return "";
}

CLI::Option *cleave::addDeviceNames(CLI::App *command, std::vector<std::string> &devices,
                                    const std::string &description, bool acceptsBareCuda) {
  // CLI11 would skip an empty name, and would read past a list of such names.
  auto fill = [&devices](const std::vector<std::string> &lists) {
    devices.clear();
    for (const std::string &list : lists)
      for (llvm::StringRef name : llvm::split(list, ','))
        devices.push_back(name.str());
  };
  return repeatable(command->add_option_function<std::vector<std::string>>("--devices", fill, description))
      ->check(CLI::Validator(
          [acceptsBareCuda](const std::string &text) {
            return acceptsBareCuda && text == "cuda" ? "" : checkDeviceNames(text);
          },
          ""))
      ->type_name("DEVICES");
}

void cleave::addLibraries(CLI::App *command, std::vector<std::string> &paths) {
  repeatable(command->add_option("--library", paths, "A library of operators, as torch loads them"))
      ->check(CLI::Validator(
          [](const std::string &path) {
            namespace fs = llvm::sys::fs;
            return fs::exists(path) && !fs::is_regular_file(path)
                       ? "found " + path + ", which is no regular file, expected a library"
                       : std::string();
          },
          ""))
      ->type_name("FILE");
}

void cleave::addAllowedOperators(CLI::App *command, std::vector<std::string> &names) {
  repeatable(command->add_option("--allow-operator", names,
                                 "Another operator that the plan may call (docs/operators.md)"))
      ->check(CLI::Validator(
          [](const std::string &text) {
            return plan::isOperatorName(text)
                       ? std::string()
                       : "found \"" + text + "\", expected an operator: aten::add.Tensor";
          },
          ""))
      ->type_name("NAME");
}

bool cleave::isGpu(const std::string &device) { return !llvm::StringRef(device).starts_with("cpu"); }

CLI::Validator cleave::fileName() {
  return CLI::Validator(
      [](const std::string &text) {
        return text.empty() ? "found an empty name, expected a file or folder" : "";
      },
      "");
}

CLI::Option *cleave::repeatable(CLI::Option *option) {
  return option->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->description(option->get_description() + "; repeatable");
}

/// The exit status of a finished command.
static int conclude(llvm::StringRef command, llvm::Error error) {
  if (!error)
    return EXIT_SUCCESS;
  const bool isUsage = error.isA<cleave::UsageError>();
  // The message may contain untrusted text: names of models and plans, messages of libraries. It is made one
  // line that fits a screen.
  const std::string message = cleave::plan::printable(toString(std::move(error)), kLongestMessage);
  if (isUsage)
    cleave::plan::printLastLine(
        ("error: " + command + ": " + message + "; see cleave " + command + " --help").str());
  else
    cleave::plan::printLastLine("error: " + message);
  return isUsage ? kWrongUsage : EXIT_FAILURE;
}

/// libtorch reports errno as a number, which our own messages do not: a model's operator was refused access.
static llvm::Error explainRefusal(llvm::Error error) {
  if (!error || error.isA<cleave::UsageError>() || !cleave::sandbox::current().seccomp)
    return error;
  std::string message = toString(std::move(error));
  for (llvm::StringRef refusal : {"Permission denied (13)", "Operation not permitted (1)"})
    if (llvm::StringRef(message).contains(refusal)) {
      message += "; a model may open no files of its own: if you trust it, pass --trust";
      break;
    }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

int main(int argc, char **argv) {
  cleave::prepareProcess();
  // At a file size limit write() must fail, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Splits PyTorch models over devices and runs them.", "cleave");
  app.set_version_flag("--version", "cleave " CLEAVE_VERSION);
  app.require_subcommand(1);
  app.failure_message(describeWrongUsage);
  cleave::Subcommand chosen;
  cleave::addCompileCommand(app, chosen);
  cleave::addRunCommand(app, chosen);
  cleave::addTrainCommand(app, chosen);
  cleave::addVerifyCommand(app, chosen);
  cleave::addInspectCommand(app, chosen);
  cleave::addSimulateCommand(app, chosen);
  cleave::addCutCommand(app, chosen);
  cleave::addProfileCommand(app, chosen);
  try {
    app.parse(argc, argv);
    checkFlags(*app.get_subcommands().front(), llvm::ArrayRef(argv, argc));
  } catch (const CLI::ParseError &error) {
    // --help and --version arrive here as well, with code 0.
    std::ostringstream text, problem;
    if (app.exit(error, text, problem) != 0) {
      llvm::errs() << problem.str();
      return kWrongUsage;
    }
    llvm::outs() << text.str();
    return conclude("", cleave::finishOutput());
  }
  const std::string command = app.get_subcommands().front()->get_name();
  // Callers of libtorch catch its exceptions, and say where; this catches all others.
  auto work = [&] { return cleave::runtime::catching([&] { return chosen.run(); }); };
  if (chosen.confinement) {
    auto explained = [&] { return conclude(command, explainRefusal(work())); };
    // Without what exit would touch: the child has done the work, and its pages are shared.
    _exit(cleave::supervise(command, *chosen.confinement, explained));
  }
  cleave::announceSignals(command, chosen.stop);
  cleave::reportCrashes(command);
  const int status = conclude(command, work());
  if (status == EXIT_SUCCESS) {
    // Notes that could not be written would turn success into failure.
    llvm::errs().clear_error();
    return status;
  }
  // Without destructors: threads that could not be stopped may still use the objects.
  llvm::outs().flush();
  cleave::plan::removeTemporaries();
  _exit(status);
}
