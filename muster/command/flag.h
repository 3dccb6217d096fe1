// A flag of a command line: its name, the variable it sets, what it means. Thread safety: a value.
//
//   int64_t hidden_units = 64;  // the default
//   Flag flag{"hidden_units", &hidden_units, "Width of the hidden layer", {.more_than = 0}};
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster::inline v0_1 {

// The bounds of a number; an unset bound does not apply.
struct FlagLimits {
  std::optional<double> more_than{};
  std::optional<double> at_least{};
  std::optional<double> at_most{};
};

struct Flag {
  // The name, of letters, digits, '_' and '-'. A user writes --name=VALUE or --name VALUE, and for
  // a bool --name or --name=false.
  std::string name{};
  // The variable holds the default, which --help shows, and receives the parsed value. It must not
  // be null and must outlive the parsing. Only finite numbers are accepted.
  std::variant<std::string*, bool*, int*, int64_t*, uint64_t*, double*, std::optional<int64_t>*>
      value{};
  std::string help{};
  FlagLimits limits = {};
  std::string placeholder = {};  // the name of the value in --help; "INT", "NUMBER" or "TEXT" when
                                 // empty
  std::vector<std::string> choices = {};  // the only texts that are allowed; empty: any
  // Whether the user must give it; the variable then holds no default.
  bool required = false;
};

}  // namespace muster::inline v0_1
