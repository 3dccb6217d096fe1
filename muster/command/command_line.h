// Reads command lines: CLI11 reads the arguments and prints the help. An Error names the wrong
// argument, the allowed ones, and what to write instead. Thread safety: one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/command/flag.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace muster::inline v0_1::command {

// Adds --name to a program or one of its commands. Throws InvalidArgument for a name that is
// invalid or exists already, and for a null variable. When arguments are parsed, it throws
// InvalidArgument for a value that does not fit, a missing value, a flag that is given twice, and a
// required one that is missing.
CLI::Option* add_flag(CLI::App& app, const Flag& flag);
// Adds an argument without a flag, such as PATH in `inspect checkpoint PATH`. Throws as add_flag()
// does.
CLI::Option* add_argument(CLI::App& app, const Flag& flag);

// Adds one or more arguments without a flag, such as FILE... in `inspect records FILE...`. `values`
// takes them in their order. Throws as add_argument() does.
CLI::Option* add_arguments(CLI::App& app, const std::string& name, std::vector<std::string>* values,
                           const std::string& help);

// Returns "muster data digits" for a command, and "muster" for the program.
std::string full_name(const CLI::App& app);

// Returns the hint about an argument, or a flag, that `command` (its full name) does not use; ""
// means the usual hint.
using SurplusHint = std::function<std::string(const std::string& command, const std::string& word)>;

// Reads `words`, which do not begin with the program's name. Returns false if --help or --version
// was given, and prints it. Throws InvalidArgument for an unknown flag or command, a surplus
// argument, and a missing required one; the hint names the nearest known word. '-' and '_' in the
// name of a flag are the same.
[[nodiscard]] bool parse(CLI::App& app, std::vector<std::string> words,
                         const SurplusHint& surplus_hint = {});

}  // namespace muster::inline v0_1::command
