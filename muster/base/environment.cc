#include "muster/base/environment.h"

#include <unistd.h>

#include <string_view>

namespace muster::inline v0_1 {

Environment Environment::process() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    // When a name has two entries, getenv() returns the first, so we keep the first too.
    variables.try_emplace(std::string(text.substr(0, equals)), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

std::string Environment::get_or(const std::string& name, std::string fallback) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return fallback;
  return found->second;
}

Environment Environment::with(const std::string& name, std::string value) const {
  Environment changed = *this;
  changed.variables_.insert_or_assign(name, std::move(value));
  return changed;
}

}  // namespace muster::inline v0_1
