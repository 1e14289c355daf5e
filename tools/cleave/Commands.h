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

/// What the chosen subcommand does once the whole command line has been read. An error becomes `error: …` on
/// stderr and exit status 1, or 2 for a UsageError.
struct Action {
  std::function<llvm::Error()> run;
  /// In a process of its own, since it executes what is in a file; nothing: in this one.
  std::optional<Confinement> confinement;
  /// Without confinement: of a search that it may do, which the first SIGINT ends. Null: none.
  StopSource *stop = nullptr;
};

/// Adds --devices, which fills `devices` with names, `cpu:N` or `cuda:N`, in one list or in several, or,
/// where `isPlaced`, with `cuda` alone.
CLI::Option *addDeviceNames(CLI::App *command, std::vector<std::string> &devices,
                            const std::string &description, bool isPlaced);

/// Adds --library, which fills `paths`: of regular files, as loading a pipe would wait for whoever writes to
/// it.
void addLibraries(CLI::App *command, std::vector<std::string> &paths);

/// Adds --allow-operator, which fills `names`.
void addAllowedOperators(CLI::App *command, std::vector<std::string> &names);

/// Whether `cuda:0` or `cuda`, of --devices, and not `cpu:0`.
bool isGpu(const std::string &device);

/// Accepts any name but the empty one.
CLI::Validator fileName();

/// Lets an option that fills a list be given several times, with one value each time, and says so.
CLI::Option *repeatable(CLI::Option *option);

/// Each adds one subcommand with its options to `app`; parsing it sets `chosen`.
void addCompileCommand(CLI::App &app, Action &chosen);
void addRunCommand(CLI::App &app, Action &chosen);
void addVerifyCommand(CLI::App &app, Action &chosen);
void addInspectCommand(CLI::App &app, Action &chosen);
void addCutCommand(CLI::App &app, Action &chosen);
void addSimulateCommand(CLI::App &app, Action &chosen);
void addProfileCommand(CLI::App &app, Action &chosen);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_COMMANDS_H
