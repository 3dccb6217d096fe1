// The main() of `muster`, and of the programs that have some of its commands: parses the command
// line, runs the command, and reports errors. Thread safety: the main thread, once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/muster/commands.h"

namespace muster::app {

// The command line of the process.
struct CommandLine {
  std::vector<std::string> words;    // without the program's name, up to "--"
  std::vector<std::string> program;  // the arguments after "--"
  std::vector<std::string> all;      // both, and the dashes
  std::string own_folder;            // where this program lies
  std::string muster_folder;         // where `muster` does, to which it belongs
};

// The commands of a program, and the message for words that fit none of them.
struct Commands {
  // Adds them. `line` outlives the action.
  std::function<void(CLI::App& app, const CommandLine& line, Action& action)> add{};
  // Called before the action, with the parsed command line.
  std::function<void(const CLI::App& app)> before = [](const CLI::App&) {};
};

// Whether the command line asks for this command.
bool asks_for(const CLI::App& app, const std::string& command);

// Returns the exit code.
int command_main(int argc, char** argv, const Commands& commands);

}  // namespace muster::app
