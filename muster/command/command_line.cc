#include "muster/command/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::command {
namespace {

template <typename T>
struct Inside {
  using Type = T;
};
template <typename T>
struct Inside<std::optional<T>> {
  using Type = T;
};

template <typename T>
constexpr bool kNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <typename T>
std::string default_placeholder() {
  if constexpr (!kNumber<T>) return "TEXT";
  return std::is_integral_v<T> ? "INT" : "NUMBER";
}

std::string text_of(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{}", value);
}
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}
template <typename T>
requires std::is_integral_v<T> std::string text_of(T value) { return fmt::format("{}", value); }

// Returns text such as "a whole number more than 0". With `widest` it also tells the bounds of the
// type.
template <typename T>
std::string allowed(FlagLimits limits, bool widest) {
  if constexpr (!kNumber<T>) {
    return "true or false";
  } else {
    std::string text = std::is_integral_v<T> ? "a whole number" : "a number";
    const auto bound = [](const std::optional<double>& limit, T otherwise) {
      return limit ? text_of(*limit) : text_of(otherwise);
    };
    const bool natural = std::is_unsigned_v<T>;
    const std::string least = bound(limits.at_least, std::numeric_limits<T>::lowest());
    const std::string most = bound(limits.at_most, std::numeric_limits<T>::max());
    const bool below = limits.at_least.has_value() || natural || widest;
    const bool above = limits.at_most.has_value() || widest;
    if (limits.more_than) {
      text += " more than " + text_of(*limits.more_than);
      if (above) text += " and at most " + most;
    } else if (below && above) {
      text += fmt::format(" from {} to {}", least, most);
    } else if (below) {
      text += fmt::format(" of {} or more", least);
    } else if (above) {
      text += " of at most " + most;
    }
    return text;
  }
}

bool within(double value, const FlagLimits& limits) {
  return !(limits.more_than && value <= *limits.more_than) &&
         !(limits.at_least && value < *limits.at_least) &&
         !(limits.at_most && value > *limits.at_most);
}

// Reads one word of a command line as the value of one variable.
template <typename T>
T convert(const std::string& shown, const std::string& text, const FlagLimits& limits,
          const std::string& hint) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
  } else {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    const bool read = code == std::errc() && stop == end && !text.empty();
    if (read && std::isfinite(static_cast<double>(value))) {
      if (within(static_cast<double>(value), limits)) return value;
      throw invalid_argument(
          fmt::format("{} is {}; it must be {}", shown, text, allowed<T>(limits, false)), hint);
    }
    // It is a number, but not one that this type can hold.
    const std::optional<double> number = parse_double(text);
    if (std::is_integral_v<T> && number && std::isfinite(*number) &&
        text.find_first_not_of("-0123456789") == std::string::npos) {
      throw invalid_argument(fmt::format("{} is {}; it must be {}", shown, text,
                                         allowed<T>(limits, within(*number, limits))),
                             hint);
    }
  }
  throw invalid_argument(
      fmt::format("{} is '{}'; it must be {}", shown, text, allowed<T>(limits, false)), hint);
}

std::string missing_value(const std::string& shown) { return shown + " needs a value"; }

// Returns the hint of every error about a flag, which says what the flag means.
std::string hint_of(const std::string& shown, const std::string& help, const std::string& text) {
  return fmt::format("{}: {}{}", shown, help,
                     text.empty() ? "" : fmt::format("; default {}", text));
}
std::string hint_of(const CLI::Option& option) {
  return hint_of(option.get_name(), option.get_description(), option.get_default_str());
}

template <typename T>
CLI::Option* add_as(CLI::App& app, const Flag& flag, T* variable, bool positional) {
  using Value = typename Inside<T>::Type;
  if (variable == nullptr) {
    throw invalid_argument(fmt::format("the flag {} has a null pointer as its variable", flag.name),
                           "set Flag::value to the address of a variable");
  }
  const std::string placeholder =
      flag.placeholder.empty() ? default_placeholder<Value>() : flag.placeholder;
  const std::string shown = positional ? flag.name : "--" + flag.name;
  const bool is_switch = std::is_same_v<T, bool>;
  if (!std::is_same_v<T, std::string> && !flag.choices.empty()) {
    throw invalid_argument(
        fmt::format("the flag {} has choices, but its variable is not a text", flag.name),
        "for numbers, set Flag::limits");
  }
  const std::string text = is_switch || flag.required ? std::string() : text_of(*variable);
  const std::string hint = hint_of(shown, flag.help, text);
  const auto set = [=, limits = flag.limits, choices = flag.choices](const CLI::results_t& given) {
    if (given.size() > 1) {
      throw invalid_argument(is_switch
                                 ? shown + " is given twice"
                                 : fmt::format("{} is given twice: {}", shown, join_quoted(given)),
                             "give it once");
    }
    if (given.front().empty()) throw invalid_argument(missing_value(shown), hint);
    if (!choices.empty() && std::ranges::find(choices, given.front()) == choices.end()) {
      const auto near = nearest(given.front(), choices);
      throw invalid_argument(fmt::format("{} is '{}'; it must be one of: {}", shown, given.front(),
                                         join(choices, ", ")),
                             (near ? fmt::format("did you mean {}? ", *near) : "") + hint);
    }
    *variable = convert<Value>(shown, given.front(), limits, hint);
    return true;
  };
  CLI::Option* option = nullptr;
  try {
    option = app.add_option(shown, set, flag.help);
  } catch (const CLI::OptionAlreadyAdded&) {
    throw invalid_argument(fmt::format("{} has two flags of the name {}", full_name(app), shown),
                           "give one of them another name");
  }
  option->type_name(positional || is_switch ? "" : placeholder)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (is_switch) option->expected(0);
  if (!text.empty()) option->default_str(text);
  option->required(flag.required);
  return option;
}

void check_name(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.empty() || name.front() == '-' ||
      name.find_first_not_of(kAllowed) != std::string::npos) {
    throw invalid_argument(fmt::format("'{}' cannot be the name of a flag", name),
                           "use letters, digits, '_' and '-'; do not begin with a dash");
  }
}

CLI::Option* add(CLI::App& app, const Flag& flag, bool positional) {
  check_name(flag.name);
  return std::visit([&](auto* variable) { return add_as(app, flag, variable, positional); },
                    flag.value);
}

// Returns the command that was chosen: the last one of "muster data digits".
const CLI::App& chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  for (auto next = at->get_subcommands(); !next.empty(); next = at->get_subcommands()) {
    at = next.front();
  }
  return *at;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Those that people call: what a command starts itself has no group.
std::vector<const CLI::App*> shown_commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& apps) {
  std::vector<std::string> names;
  for (const CLI::App* app : apps) names.push_back(app->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(name);
  }
  return flags;
}

// Returns a command below `app` that has `flag`.
const CLI::App* owner_of(const CLI::App& app, const std::string& flag) {
  for (const CLI::App* command : shown_commands_of(app)) {
    if (command->get_option_no_throw("--" + flag) != nullptr) return command;
    if (const CLI::App* owner = owner_of(*command, flag)) return owner;
  }
  return nullptr;
}

std::string more_help(const CLI::App& app) { return full_name(app) + " --help lists all flags"; }

[[noreturn]] void throw_unknown_flag(const CLI::App& app, const std::string& word,
                                     const SurplusHint& surplus_hint) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  const std::string message = fmt::format("{} is not a flag of {}", flag, full_name(app));
  if (const CLI::App* owner = owner_of(app, name)) {
    throw invalid_argument(
        message, fmt::format("it is a flag of {}: write it after that command", full_name(*owner)));
  }
  const std::optional<std::string> near = nearest(name, flags_of(app));
  const std::string hint = surplus_hint ? surplus_hint(full_name(app), word) : std::string();
  throw invalid_argument(
      message, (near ? fmt::format("did you mean --{}? {}", *near, hint.empty() ? "" : "if not, ")
                     : std::string()) +
                   (hint.empty() ? more_help(app) : hint));
}

[[noreturn]] void throw_surplus(const CLI::App& app, const std::string& word,
                                const SurplusHint& surplus_hint) {
  const std::vector<std::string> commands = names_of(shown_commands_of(app));
  if (commands.empty()) {
    std::string hint = surplus_hint ? surplus_hint(full_name(app), word) : std::string();
    if (hint.empty()) hint = "flags begin with two dashes; " + more_help(app);
    throw invalid_argument(fmt::format("{} takes no argument '{}'", full_name(app), word), hint);
  }
  const std::optional<std::string> near = nearest(word, commands);
  throw invalid_argument(
      fmt::format("there is no command '{}' in {}", word, full_name(app)),
      near ? fmt::format("did you mean {} {}? {}", full_name(app), *near, more_help(app))
           : "choose one of: " + join(commands, ", "));
}

// Throws for the first word that nothing takes, if there is one.
void check_extras(const CLI::App& app, const SurplusHint& surplus_hint) {
  for (const CLI::App* at = &app;; at = at->get_subcommands().front()) {
    for (const std::string& word : at->remaining()) {
      if (word.starts_with("-") && word.size() > 1 && word != "--")
        throw_unknown_flag(*at, word, surplus_hint);
      if (word != "--") throw_surplus(*at, word, surplus_hint);
    }
    if (at->get_subcommands().empty()) return;
  }
}

// CLI11 takes any word after a flag as its value, and does not tell it from one given with "=".
// But "--name --seed=3" is a mistake, and "--name=--seed=3" is not.
void check_followed(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string flag = words[i].substr(0, words[i].find('='));
    if (!flag.starts_with("--")) {
      const auto commands = commands_of(*at);
      const auto command = std::ranges::find(commands, words[i], &CLI::App::get_name);
      if (command != commands.end()) at = *command;
      continue;
    }
    const CLI::Option* option = at->get_option_no_throw(flag);
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    if (words[i].size() == flag.size() + 1) {  // "--name="
      throw invalid_argument(missing_value(flag), hint_of(*option));
    }
    if (words[i] != flag || i + 1 == words.size()) continue;
    if (words[++i].starts_with("--")) {
      throw invalid_argument(missing_value(flag) + ", and is followed by " + words[i],
                             hint_of(*option));
    }
  }
}

// Throws for what the command that was chosen requires and lacks.
void check_required(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const bool bare = option->get_positional() || option->get_type_name().empty();
    const std::string value = bare ? "" : "=" + option->get_type_name();
    throw invalid_argument(fmt::format("{} needs {}{}", full_name(app), option->get_name(), value),
                           fmt::format("{}: {}", option->get_name(), option->get_description()));
  }
  if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty()) {
    throw invalid_argument(
        full_name(app) + " needs a command",
        fmt::format("choose one of: {}; {} --help describes them",
                    join(names_of(shown_commands_of(app)), ", "), full_name(app)));
  }
}

bool knows(const CLI::App& app, const std::string& flag) {
  if (app.get_option_no_throw(flag) != nullptr) return true;
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::ranges::any_of(commands,
                             [&](const CLI::App* command) { return knows(*command, flag); });
}

// Reads --log-format as --log_format where only the other is known, and the other way round,
// because tools write their flags in one way and programs in the other. Words after "--" are not
// ours.
void spell_as_known(const CLI::App& app, std::vector<std::string>& words) {
  for (std::string& word : words) {
    if (word == "--") return;
    if (!word.starts_with("--")) continue;
    const size_t end = std::min(word.find('='), word.size());
    const std::string flag = word.substr(0, end);
    if (knows(app, flag)) continue;
    for (const char to : {'_', '-'}) {
      std::string other = flag;
      std::replace(other.begin() + 2, other.end(), to == '_' ? '-' : '_', to);
      if (!knows(app, other)) continue;
      word = other + word.substr(end);
      break;
    }
  }
}

void allow_extras(CLI::App& app) {
  app.allow_extras();
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    allow_extras(*command);
  }
}

}  // namespace

CLI::Option* add_flag(CLI::App& app, const Flag& flag) { return add(app, flag, false); }
CLI::Option* add_argument(CLI::App& app, const Flag& flag) { return add(app, flag, true); }

CLI::Option* add_arguments(CLI::App& app, const std::string& name, std::vector<std::string>* values,
                           const std::string& help) {
  check_name(name);
  const auto set = [=](const CLI::results_t& given) {
    if (std::ranges::count(given, "") > 0) {
      throw invalid_argument(missing_value(name), hint_of(name, help, ""));
    }
    *values = given;
    return true;
  };
  return app.add_option(name, set, help)
      ->type_name("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1)
      ->allow_extra_args();
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

bool parse(CLI::App& app, std::vector<std::string> words, const SurplusHint& surplus_hint) {
  // CLI11 would report them without listing the words it knows.
  allow_extras(app);
  spell_as_known(app, words);
  check_followed(app, words);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return false;
    }
    check_extras(app, surplus_hint);
    const CLI::App& command = chosen(app);
    check_required(command);
    // The message of CLI11 begins with the flag whose value is missing.
    const std::string text = error.what();
    const std::string name = text.substr(0, text.find(':'));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      throw invalid_argument(missing_value(name), hint_of(*option));
    }
    throw invalid_argument(text, more_help(command));
  }
  check_extras(app, surplus_hint);
  return true;
}

}  // namespace muster::inline v0_1::command
