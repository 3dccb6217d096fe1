#include "muster/keras/history.h"

#include <fmt/format.h>

#include <limits>

#include "muster/base/unknown_name.h"

namespace muster::inline v0_1::keras {

void History::add(int64_t number, const std::map<std::string, double>& logs) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : logs) {
    // A metric that appears late was not measured before.
    auto& values = history.try_emplace(name, epoch.size(), kNothing).first->second;
    values.push_back(value);
  }
  epoch.push_back(number);
  for (auto& [name, values] : history) values.resize(epoch.size(), kNothing);
}

const std::vector<double>& History::operator[](const std::string& name) const {
  const auto found = history.find(name);
  if (found != history.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, values] : history) names.push_back(known);
  throw unknown_name("the history", "metric", name, names);
}

std::string History::to_csv() const {
  std::string text = "epoch";
  for (const auto& [name, values] : history) text += "," + name;
  text += "\n";
  for (size_t row = 0; row < epoch.size(); ++row) {
    text += std::to_string(epoch[row]);
    for (const auto& [name, values] : history) text += fmt::format(",{}", values[row]);
    text += "\n";
  }
  return text;
}

}  // namespace muster::inline v0_1::keras
