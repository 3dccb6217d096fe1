// Reads command lines: CLI11 reads the words and prints the help. An Error names the word that is
// wrong, what is allowed, and what to write instead. Thread safety: one thread.
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

// Adds --name to a program or one of its commands. Throws InvalidArgument for a name that cannot be
// or is there already, and for a null variable. When words are parsed, it throws InvalidArgument
// for a value that does not fit, a missing value, a flag that is given twice, and a required one
// that is missing.
CLI::Option* add_flag(CLI::App& app, const Flag& flag);
// Adds a word without a flag, such as PATH in `inspect checkpoint PATH`. Throws as add_flag() does.
CLI::Option* add_argument(CLI::App& app, const Flag& flag);

// Adds one or more words without a flag, such as FILE... in `inspect records FILE...`. `values`
// takes them in their order. Throws as add_argument() does.
CLI::Option* add_arguments(CLI::App& app, const std::string& name, std::vector<std::string>* values,
                           const std::string& help);

// Returns "muster data digits" for a command, and "muster" for the program.
std::string full_name(const CLI::App& app);

// Returns the hint about a word, or a flag, that `command` (its full name) has no use for; "" gives
// the usual hint.
using SurplusHint = std::function<std::string(const std::string& command, const std::string& word)>;

// Reads `words`, which do not begin with the program's name. Returns false when --help or --version
// was asked for; it is printed then. Throws InvalidArgument for an unknown flag or command, a word
// too many, and what is required but missing; the hint names the nearest word there is. '-' and '_'
// in the name of a flag are the same.
[[nodiscard]] bool parse(CLI::App& app, std::vector<std::string> words,
                         const SurplusHint& surplus_hint = {});

}  // namespace muster::inline v0_1::command
