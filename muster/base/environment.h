// A copy of environment variables, so that decisions based on them can be tested.
// Thread safety: a value; reading a shared one is safe.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT Environment {
 public:
  Environment() = default;
  // Environment{{"NAME", "value"}, ...}
  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables)
      : variables_(variables) {}
  explicit Environment(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {}

  // Copies the variables of this process as they are now; later changes do not show.
  static Environment process();

  // Returns the variable; nothing when it is not set, and "" when it is set to an empty text.
  std::optional<std::string> get(const std::string& name) const;
  // Returns the variable, or `fallback` when it is not set.
  std::string get_or(const std::string& name, std::string fallback) const;
  // Whether the variable is set, even to an empty text.
  bool has(const std::string& name) const { return variables_.count(name) != 0; }
  // Returns a copy in which `name` is set.
  Environment with(const std::string& name, std::string value) const;

  const std::map<std::string, std::string>& variables() const { return variables_; }

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace muster::inline v0_1
