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

// Bounds of a number; unset ones do not bound.
struct FlagLimits {
  std::optional<double> more_than;
  std::optional<double> at_least;
  std::optional<double> at_most;
};

struct Flag {
  // Letters, digits, '_' and '-': given as --name=VALUE or --name VALUE. A bool is given as --name,
  // or as --name=false.
  std::string name;
  // Holds the default, which --help shows, and takes what is given. Not null; must outlive the
  // parsing. Numbers are finite.
  std::variant<std::string*, bool*, int*, int64_t*, uint64_t*, double*, std::optional<int64_t>*>
      value;
  std::string help;
  FlagLimits limits = {};
  std::string placeholder = {};  // how --help calls the value; "INT", "NUMBER" or "TEXT" when empty
  std::vector<std::string> choices = {};  // the only texts that are allowed; empty: any
};

}  // namespace muster::inline v0_1
