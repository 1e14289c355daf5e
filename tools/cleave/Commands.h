//===- Commands.h - The subcommands of `cleave` -----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_COMMANDS_H
#define CLEAVE_TOOLS_CLEAVE_COMMANDS_H

#include "tools/cleave/process/Supervisor.h"
#include "llvm/Support/Error.h"
#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// The chosen subcommand, run after the whole command line has been parsed. An error becomes `error: …` on
/// stderr and exit status 1, or 2 for a UsageError.
struct Subcommand {
  std::function<llvm::Error()> run;
  /// The child process to run in, since the command executes what is in a file; nothing: runs in this
  /// process.
  std::optional<Confinement> confinement;
  /// Without confinement: stop source of a search, for the first SIGINT. Null: no search.
  StopSource *stop = nullptr;
};

/// Adds --devices, which fills `devices` with names, `cpu:N` or `cuda:N`. The option takes one list or
/// several, and also `cuda` alone where `acceptsBareCuda`.
CLI::Option *addDeviceNames(CLI::App *command, std::vector<std::string> &devices,
                            const std::string &description, bool acceptsBareCuda);

/// Adds --library, which fills `paths`. Only regular files are accepted: opening a pipe would block.
void addLibraries(CLI::App *command, std::vector<std::string> &paths);

/// Adds --allow-operator, which fills `names`.
void addAllowedOperators(CLI::App *command, std::vector<std::string> &names);

/// True if `device` of --devices is `cuda:0` or `cuda`, not `cpu:0`.
bool isGpu(const std::string &device);

/// Accepts any name except an empty one.
CLI::Validator fileName();

/// Lets a list option be given several times, with one value each time, and says so in its help.
CLI::Option *repeatable(CLI::Option *option);

/// Each adds one subcommand with its options to `app`; parsing it sets `chosen`.
void addCompileCommand(CLI::App &app, Subcommand &chosen);
void addRunCommand(CLI::App &app, Subcommand &chosen);
void addTrainCommand(CLI::App &app, Subcommand &chosen);
void addVerifyCommand(CLI::App &app, Subcommand &chosen);
void addInspectCommand(CLI::App &app, Subcommand &chosen);
void addCutCommand(CLI::App &app, Subcommand &chosen);
void addSimulateCommand(CLI::App &app, Subcommand &chosen);
void addProfileCommand(CLI::App &app, Subcommand &chosen);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_COMMANDS_H
